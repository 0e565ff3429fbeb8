"""Kept saves, forks from them, and the look at all open tasks."""

from django_statestore.contracts.history import Fork
from django_statestore.contracts.journal import CallLine, Item
from django_statestore.contracts.taskrecord import RING
from tests.durable.raw import HOUR, Raw, raw

__all__ = ["raw"]


def test_history_shows_the_saves_from_the_start_on(raw: Raw) -> None:
    task = raw.start().id
    raw.claim()
    raw.commit(ending="enter", state='"one"', step="first", worker="w1", milliseconds=7)
    raw.commit(ending="completed", state='"second"', step="second", turn=3, outcome="finished", milliseconds=None)
    history = raw.do(raw.tasks.task_history(task))
    assert [(saved.save, saved.step, saved.next_index, saved.turn, saved.attempts) for saved in history] == [
        (0, "", 0, 1, 0),
        (1, "first", 1, 1, 1),
        (2, "second", 2, 3, 2),
    ]
    assert [(saved.outcome, saved.size, saved.milliseconds) for saved in history] == [
        ("started", 5, None),
        ("done", 5, 7),
        ("finished", 8, None),
    ]
    assert history[1].worker == "w1"
    assert history[0].saved_at <= history[1].saved_at <= history[2].saved_at
    assert [raw.do(raw.tasks.task_saved(task, save)) for save in range(4)] == ['"new"', '"one"', '"second"', None]


def test_the_oldest_saves_make_room_for_the_newest(raw: Raw) -> None:
    task = raw.start().id
    raw.claim()
    for number in range(1, RING + 3):
        raw.commit(ending="enter", state=str(number), more_attempts=1)
    history = raw.do(raw.tasks.task_history(task))
    assert [saved.save for saved in history] == list(range(3, RING + 3))
    assert raw.do(raw.tasks.task_saved(task, 2)) is None
    assert raw.do(raw.tasks.task_saved(task, 3)) == "3"


def source(raw: Raw) -> int:
    """Make a task with two saves, items with each, a call, a signal and a use; return its row's id."""
    task = raw.start().id
    raw.claim()
    raw.do(raw.tasks.task_journal(raw.at(), CallLine("search", 1, b"a" * 32, "null")))
    raw.commit(ending="enter", items=(Item("log", "1"), Item("log", "2")))
    raw.commit(ending="enter", items=(Item("log", "3"),))
    raw.signal("go")
    raw.cancel("not yet")
    raw.bench.store.spool.write_for_task(task, "t", "facts", "facts")
    return task


def test_a_fork_goes_on_at_its_step_with_the_items_up_to_its_save(raw: Raw) -> None:
    task = source(raw)
    new = raw.new("fork", state='"forked"')
    assert raw.do(raw.tasks.task_fork(new, Fork(task, through=1, next_index=1)))
    fork = raw.record("fork")
    assert (fork.status, fork.step_index, fork.turn, fork.attempts, fork.save_seq) == ("ready", 1, 1, 0, 0)
    assert (fork.forked_from, fork.state, fork.due, fork.cancel_requested) == (task, '"forked"', True, None)
    history = raw.do(raw.tasks.task_history(fork.id))
    assert [(saved.save, saved.outcome, saved.next_index) for saved in history] == [(0, "forked", 1)]
    lines = raw.do(raw.tasks.task_lines(fork.id, 0, 100))
    shown = [(line.number, line.kind, line.name, line.value, line.save_seq) for line in lines]
    assert shown == [(1, "item", "log", "1", 0), (2, "item", "log", "2", 0)]
    assert raw.do(raw.tasks.task_letters(fork.id)) == []


def test_a_fork_numbers_on_behind_the_items_it_took_over(raw: Raw) -> None:
    task = source(raw)
    raw.do(raw.tasks.task_fork(raw.new("fork"), Fork(task, through=2, next_index=2)))
    raw.claim("fork")
    raw.commit("fork", ending="completed", items=(Item("log", "4"),))
    fork = raw.record("fork")
    assert raw.do(raw.tasks.task_items(fork.id, "log")) == ["1", "2", "3", "4"]
    assert [line.number for line in raw.do(raw.tasks.task_lines(fork.id, 0, 100))] == [1, 2, 3, 4]


def test_a_fork_may_take_over_no_items(raw: Raw) -> None:
    task = source(raw)
    raw.do(raw.tasks.task_fork(raw.new("fork"), Fork(task, through=None, next_index=0)))
    assert raw.do(raw.tasks.task_lines(raw.record("fork").id, 0, 100)) == []


def test_what_the_source_spooled_outlives_it_in_its_fork(raw: Raw) -> None:
    task = raw.start().id
    reader = raw.bench.store.spool.write_for_task(task, "t", "facts", "facts")
    raw.do(raw.tasks.task_fork(raw.new("fork", deadline=1000 * HOUR), Fork(task, through=None, next_index=0)))
    raw.cancel()
    raw.do(raw.tasks.task_cancel(raw.at(), "enough"))
    raw.bench.age(100_000)
    for _ in range(3):
        raw.do(raw.tasks.tasks_purge(1000, 500))
        raw.do(raw.bench.store.backend.spool_purge_dropped(1000, 500))  # type: ignore[attr-defined]
    assert raw.do(raw.tasks.task_history(task)) == []
    assert raw.bench.store.spool.open(reader.ref).line(0) == "facts"


def test_a_fork_to_a_taken_id_writes_nothing(raw: Raw) -> None:
    task = source(raw)
    raw.start("fork")
    before = raw.bench.rows.everything("fork")
    assert not raw.do(raw.tasks.task_fork(raw.new("fork"), Fork(task, through=2, next_index=1)))
    assert raw.bench.rows.everything("fork") == before


def test_a_fork_leaves_its_source_as_it_is(raw: Raw) -> None:
    task = source(raw)
    before = raw.record()
    raw.do(raw.tasks.task_fork(raw.new("fork"), Fork(task, through=2, next_index=1)))
    after = raw.record()
    assert (after.fence, after.wake_at, after.worker) == (before.fence, before.wake_at, before.worker)


def test_open_tasks_are_shown_in_order_and_in_parts(raw: Raw) -> None:
    first, second, third = (raw.start(name, state=f'"{name}"').id for name in ("a", "b", "c"))
    raw.cancel(task_id="b")
    raw.do(raw.tasks.task_cancel(raw.at("b"), "enough"))
    raw.do(raw.tasks.task_park(raw.at("c"), "diverged"))
    namespace = raw.record("a").namespace
    with raw.bench.store.durable.exclusive("foreign"):
        seen = [task for task in raw.do(raw.tasks.tasks_open(first - 1, 1000)) if task.namespace == namespace]
    assert [(task.id, task.key, task.status, task.reason, task.state) for task in seen] == [
        (first, "a", "ready", "", '"a"'),
        (third, "c", "ready", "diverged", '"c"'),
    ]
    assert (seen[0].definition, seen[0].revision, seen[0].fingerprint, seen[0].step_index) == ("raw", "1", "print", 0)
    assert [task.id for task in raw.do(raw.tasks.tasks_open(first - 1, 1))] == [first]
    assert second not in [task.id for task in raw.do(raw.tasks.tasks_open(first, 1000))]
