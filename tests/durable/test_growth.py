"""What a task keeps is bounded, however many and however large its saves."""

import pytest

from django_statestore.durable import DurableTask, Repeat, StepContext
from tests.durable.conftest import Bench


def growing(bench: Bench, turns: int, size: int) -> DurableTask[dict[str, object]]:
    task: DurableTask[dict[str, object]] = bench.define(state=None, is_state=lambda value: True)  # type: ignore[assignment]

    @task.step(replay="safe")
    def turn(state: dict[str, object], ctx: StepContext) -> object:
        state = {"turn": ctx.turn, "text": "x" * size}
        return Repeat(state) if ctx.turn < turns else state

    bench.call(task.start, {}, task_id="t", namespace=bench.names)
    return task


def test_a_ring_of_twenty_saves_is_kept(bench: Bench) -> None:
    task = growing(bench, 45, 100)
    bench.call(task.run, "t", namespace=bench.names)
    assert [saved.save_seq for saved in bench.rows.saves("t")] == list(range(26, 46))
    assert task.get("t", namespace=bench.names).state["turn"] == 45


@pytest.mark.parametrize("size", [49_000, 60_000, 300_000, 1_200_000])
def test_large_states_keep_a_megabyte_beyond_the_newest(bench: Bench, size: int) -> None:
    task = growing(bench, 30, size)
    bench.call(task.run, "t", namespace=bench.names)
    *older, newest = bench.rows.saves("t")
    assert sum(saved.size for saved in older) <= 1_000_000
    assert len(older) == min(19, 1_000_000 // newest.size)
    assert task.get("t", namespace=bench.names).state["turn"] == 30


def test_a_new_worker_goes_on_counting_what_it_finds(bench: Bench) -> None:
    task = growing(bench, 6, 400_000)
    for _ in range(5):
        bench.one_step(task)  # type: ignore[arg-type]
    bench.call(task.run, "t", namespace=bench.names)
    assert [saved.save_seq for saved in bench.rows.saves("t")] == [4, 5, 6]
