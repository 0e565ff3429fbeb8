"""Eight threads on one store: what each of them was told adds up to what is there."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any

from django_statestore import Store
from django_statestore.backends.memory import MemoryBackend
from django_statestore.contracts.checkpoint import Checkpoint, CheckpointStatus
from django_statestore.contracts.position import Position
from django_statestore.contracts.taskrecord import NewTask
from django_statestore.contracts.tasks import Save
from django_statestore.exceptions import QueueFull
from tests.memory.threads import THREADS, contend

TIMES = 300


def test_each_key_is_added_once_and_consumed_once(here: Store) -> None:
    added = contend(lambda number: [key for key in range(TIMES) if here.kv.add(f"k{key}", number)])
    assert sorted(chain.from_iterable(added)) == list(range(TIMES))
    assert here.kv.size() == TIMES
    taken = contend(lambda number: [here.kv.consume(f"k{key}", "gone") for key in range(TIMES)])
    winners = [number for got in taken for number in got if number != "gone"]
    assert Counter(winners) == Counter({number: len(keys) for number, keys in enumerate(added) if keys})
    assert here.kv.size() == 0


def test_each_handoff_is_taken_once(here: Store) -> None:
    ids = [here.handoff.issue({"n": number}, 60) for number in range(TIMES)]
    taken = contend(lambda number: [here.handoff.get_and_delete(id) for id in ids])
    assert sorted(state["n"] for got in taken for state in got if state) == list(range(TIMES))
    assert here.handoff.size() == 0


def test_each_event_is_first_seen_once_and_claimed_once(here: Store) -> None:
    firsts = contend(lambda number: sum(not here.dedup.seen(f"e{event}", 60) for event in range(TIMES)))
    assert sum(firsts) == TIMES

    def handle(number: int) -> int:
        done = 0
        for event in range(TIMES):
            with here.dedup.once(f"o{event}", 60) as claim:
                done += bool(claim)
        return done

    assert sum(contend(handle)) == TIMES


def test_a_lock_is_held_by_one_and_its_fences_rise(here: Store) -> None:
    inside, fences = [0], list[int]()

    def work(number: int) -> None:
        for _ in range(TIMES // THREADS):
            while (lock := here.lock.acquire("k", 60)) is None:
                pass
            inside[0] += 1
            assert inside[0] == 1
            fences.append(lock.fence)
            inside[0] -= 1
            assert lock.release()

    contend(work)
    assert len(fences) == TIMES // THREADS * THREADS
    assert all(one < next for one, next in pairwise(fences))


def test_locks_that_are_extended_and_forced_have_one_holder(here: Store) -> None:
    def work(number: int) -> tuple[int, int]:
        taken = ended = 0
        for turn in range(TIMES):
            lock = here.lock.acquire("k", 60)
            if lock is None:
                ended += here.lock.force_release("k") if turn % 7 == number else 0
                continue
            taken += 1
            if lock.extend(60) is not None:
                ended += lock.release()
        return taken, ended

    counts = contend(work)
    left = here.lock.force_release("k")
    assert sum(taken for taken, _ in counts) == sum(ended for _, ended in counts) + left


def test_no_item_of_a_queue_is_lost_or_doubled(here: Store) -> None:
    def work(number: int) -> list[tuple[int, int]]:
        got = []
        for turn in range(TIMES):
            here.queue.enqueue("q", (number, turn))
            if turn % 3 == 0:
                got.append(here.queue.dequeue("q"))
            elif turn % 3 == 1:
                item = here.queue.take("q")
                assert item is not None, "every thread adds before it takes"
                assert item.ack() is True
                got.append(item.value)
        return got

    gone = [value for got in contend(work) for value in got]
    assert here.queue.depth("q") == THREADS * TIMES - len(gone)
    while (value := here.queue.dequeue("q")) is not None:
        gone.append(value)
    assert Counter(gone) == Counter((number, turn) for number in range(THREADS) for turn in range(TIMES))
    assert here.queue.size() == 0


def test_one_producers_items_keep_their_order(here: Store) -> None:
    contend(lambda number: [here.queue.enqueue(f"q{number % 2}", (number, turn)) for turn in range(TIMES)])
    for key in ("q0", "q1"):
        last = dict.fromkeys(range(THREADS), -1)
        while (value := here.queue.dequeue(key)) is not None:
            number, turn = value
            assert turn == last[number] + 1
            last[number] = turn


def test_a_released_item_is_taken_by_one_and_counted(here: Store) -> None:
    for number in range(THREADS // 2):
        here.queue.enqueue("q", number)

    def work(number: int) -> int:
        deliveries = 0
        for _ in range(TIMES):
            item = here.queue.take("q")
            if item is not None:
                deliveries += 1
                assert item.release()
        return deliveries

    total = sum(contend(work))
    items = [here.queue.take("q") for _ in range(THREADS // 2)]
    assert sum(item.deliveries for item in items if item) == total + len(items)


def test_a_queue_never_holds_more_than_its_limit(here: Store) -> None:
    def work(number: int) -> int:
        """Return how many more items this thread has put in than taken out."""
        balance = 0
        for turn in range(TIMES):
            with suppress(QueueFull):
                assert here.queue.enqueue("q", turn, max_size=10, on_full="reject") <= 10
                balance += 1
            if turn % 4 == 0:
                balance -= here.queue.dequeue("q") is not None
            assert here.queue.enqueue("dropping", turn, max_size=5) <= 5
        return balance

    balance = sum(contend(work))
    assert here.queue.depth("q") == balance
    assert here.queue.depth("dropping") == 5


def test_a_list_takes_every_append_and_keeps_to_its_cap(here: Store) -> None:
    lengths = contend(lambda number: [here.list.append("l", (number, turn)) for turn in range(TIMES)])
    assert sorted(chain.from_iterable(lengths)) == list(range(1, THREADS * TIMES + 1))
    assert len(set(here.list.range("l"))) == THREADS * TIMES
    capped = contend(lambda number: [here.list.append("capped", turn, max_len=7) for turn in range(TIMES)])
    assert Counter(chain.from_iterable(capped)) == Counter({7: THREADS * TIMES - 6} | dict.fromkeys(range(1, 7), 1))
    assert here.list.last("capped", 99) == here.list.range("capped")


def test_readers_of_a_spool_see_whole_versions_while_it_is_rewritten(here: Store, backend: MemoryBackend) -> None:
    bodies = [bytes([65 + number]) * 200_000 for number in range(THREADS)]

    def work(number: int) -> None:
        for _ in range(10):
            mine = here.spool.write("c", bodies[number])
            seen = here.spool.read("c")
            assert seen is not None
            assert seen.read_bytes() in bodies
            assert mine.read_bytes() == bodies[number]

    contend(work)
    gone = backend.spool_purge_dropped(0, 1000).run()
    assert gone == THREADS * 10 - 1
    assert here.spool.size() == 1


def test_a_lease_of_the_contract_has_one_holder_and_no_save_is_lost(here: Store) -> None:
    def work(number: int) -> None:
        for _ in range(10):
            with here.durable.exclusive("t", wait=30):
                before = here.durable.load("t")
                here.durable.save("t", counted(1 + (before.state if before else 0)))

    contend(work)
    after = here.durable.load("t")
    assert after is not None
    assert after.state == THREADS * 10


def counted(count: int, status: CheckpointStatus = "ready") -> Checkpoint:
    return Checkpoint(
        definition_id="count",
        revision="1",
        next_step_index=0,
        attempt_count=0,
        max_attempts=1,
        deadline_at_ms=2_000_000_000_000,
        status=status,
        state=count,
    )


def test_a_task_is_started_once_and_each_of_its_steps_is_entered_by_one(here: Store, backend: MemoryBackend) -> None:
    entries = [here.durable.entry(f"t{number}") for number in range(TIMES)]
    started = contend(lambda number: sum(backend.task_start(new_task(entry)).run() for entry in entries))
    assert sum(started) == TIMES

    def work(number: int) -> int:
        claimed = 0
        for entry in entries:
            record = backend.task_read(entry).run()
            assert record is not None
            at = record.position
            grant = backend.task_claim(at, f"w{number}", 60_000, enter=True, calls=0).run()
            if grant is not None:
                claimed += 1
                mine = Position(record.id, grant.fence, record.save_seq)
                assert backend.task_commit(mine, completed(number)).run() is not None
            if record.status == "ready":
                assert backend.task_commit(at, completed(number)).run() is None, "it was never ours by that fence"
        return claimed

    assert sum(contend(work)) == TIMES
    records = [backend.task_read(entry).run() for entry in entries]
    assert {(record.status, record.attempts, record.save_seq) for record in records if record} == {("completed", 1, 1)}


def new_task(entry: Any) -> NewTask:
    return NewTask(
        entry=entry,
        definition="d",
        revision="1",
        fingerprint="f",
        start_digest=b"s",
        state="{}",
        max_attempts=9,
        deadline=3_600_000,
        max_calls=None,
        max_calls_per_attempt=None,
        retention=None,
        notify=None,
    )


def completed(number: int) -> Save:
    return Save(
        ending="completed",
        state="{}",
        step="s",
        turn=1,
        attempts=1,
        outcome="done",
        milliseconds=1,
        worker=f"w{number}",
        next_index=1,
        next_turn=1,
        more_attempts=0,
        refund=0,
        calls=0,
        lease=60_000,
        notify=None,
    )


def test_a_task_is_messaged_by_one_of_many_sweeps(here: Store, backend: MemoryBackend) -> None:
    for number in range(TIMES):
        backend.task_start(new_task(here.durable.entry(f"t{number}"))).run()
    found = contend(lambda number: [due.key for due in backend.tasks_notify(["f"], 60_000, TIMES).run()])
    assert sorted(chain.from_iterable(found)) == sorted(f"t{number}" for number in range(TIMES))
