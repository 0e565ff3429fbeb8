"""What must hold of a voyage, seen from outside: from the rows, the queue beside them, and the ledger."""

from collections import Counter

from django.contrib.auth.models import Group

from django_statestore import Store, stores
from django_statestore.contracts.taskrecord import TaskRecord
from django_statestore.durable import TaskHandle
from django_statestore.durable.task import engine_of
from django_statestore.models import JournalItem, MailboxItem, QueueItem, Snapshot
from tests.crash.checks import check_never_blind, check_view
from tests.crash.journey import CALLS, Trip
from tests.crash.ledger import Ledger
from tests.crash.voyage import STORIES, Story


def check_sunk(story: str, store: Store, ledger: Ledger) -> None:
    """Check what a killed worker leaves: whatever it was told is there, and no entry is uncounted."""
    record = engine_of(store).task_read(store.durable.entry(ledger.path.name)).run()
    if record is None:
        assert not ledger.lines()
        return
    assert record.attempts >= len(ledger.lines("entered"))
    assert record.reserved_calls >= len(ledger.lines("effect"))
    kept = Snapshot.objects.using(store.alias).filter(task_id=record.id)
    states = dict(kept.values_list("save_seq", "state"))
    assert sorted(states) == list(range(record.save_seq + 1)), "a save without its state, or a state without its save"
    assert states[record.save_seq] == record.state
    for line in ledger.lines("saved"):
        assert states[line.turn] == line.detail
    check_kept(store, ledger, record)
    steps = Counter(kept.values_list("step", flat=True))
    told = STORIES[story]
    check_rows(told, store, steps)
    saved = sum(len(logged_by(told, step)) * count for step, count in steps.items())
    assert len(items_of(store, record)) == saved, "items without their save, or a save without its items"


def check_kept(store: Store, ledger: Ledger, record: TaskRecord) -> None:
    """Check that no finished call and no signal that was acknowledged is missing."""
    calls = JournalItem.objects.using(store.alias).filter(task_id=record.id, kind="call")
    journal = {(name, save, f"{n} {value[:100]}") for name, save, n, value in calls.values_list(
        "name", "save_seq", "occurrence", "value"
    )}  # fmt: skip
    assert journal >= {(line.step, line.turn, line.detail) for line in ledger.lines("kept")}
    mailbox = MailboxItem.objects.using(store.alias).filter(task_id=record.id, kind="signal")
    applied = set(mailbox.exclude(seq=None).values_list("name", flat=True))
    assert applied >= {line.step for line in ledger.lines("sent")}
    assert not mailbox.filter(seq=None).exists(), "a signal that was stored and not applied, outside any transaction"


def logged_by(told: Story, step: str) -> list[str]:
    """Return the items that a step appends, each of its turns."""
    counts = {"ask": 2, "pay": 1, "settle": 1} if told.items else {}
    return ["item"] * counts.get(step, 0)


def items_of(store: Store, record: TaskRecord) -> list[str]:
    lines = JournalItem.objects.using(store.alias).filter(task_id=record.id, kind="item", name="log")
    return [value.strip('"') for value in lines.order_by("number").values_list("value", flat=True)]


def check_rows(told: Story, store: Store, steps: Counter[str]) -> None:
    """Check that the rows of each atomic step are there exactly if its save is."""
    groups = Group.objects.using(store.alias).filter(name__startswith=f"{store.names[-1]} ")
    made = sorted(" ".join(name.split(" ")[1:-1]) for name in groups.values_list("name", flat=True))
    expected = [row for row, step in zip(told.rows, ("pay", "settle"), strict=False) if steps[step]]
    assert made == sorted(expected)
    queued = QueueItem.objects.using(store.alias).filter(queue__namespace=store.names[-1]).order_by("seq")
    assert [value.strip('"') for value in queued.values_list("value", flat=True)] == expected


def check_home(story: str, handle: TaskHandle[Trip], ledger: Ledger, *, deaths: int, unused: int | None = None) -> None:
    """Check that the task has come to its end as if nobody had died; ``unused`` as for ``check_arrived``."""
    told, record = STORIES[story], handle.record
    store = stores[handle.definition.store_alias].namespace(*handle.namespace)
    assert (handle.status, handle.reason, handle.state) == ("completed", "", told.end)
    assert record.save_seq == told.saves
    effects = [(line.step, line.turn) for line in ledger.lines("effect")]
    assert effects == told.effects
    check_never_blind(ledger, ("book", "greet"))
    entered = len(ledger.lines("entered"))
    assert entered <= record.attempts <= entered + (deaths if unused is None else unused)
    assert told.reserved <= record.reserved_calls <= told.reserved + deaths * CALLS
    steps = Counter(Snapshot.objects.using(store.alias).filter(task_id=record.id).values_list("step", flat=True))
    check_rows(told, store, steps)
    check_kept(store, ledger, record)
    check_calls(ledger)
    check_items(told, items_of(store, record), ledger)
    check_signals(told, store, record, ledger)
    check_view(handle)


def check_calls(ledger: Ledger) -> None:
    """Check that no call was made again once its result was kept, and that this very result was given ever after.

    Within one turn; the next begins with a save, which ends what is kept. A result that was given was kept, also
    where its worker died before it could say so.
    """
    made: dict[tuple[str, int, str], str] = {}
    kept: set[tuple[str, int, str]] = set()
    at = ("", 0, "")
    for line in ledger.lines():
        if line.what == "kept":
            kept.add(at)
        elif line.what in ("called", "returned"):
            at = (line.step, line.turn, call_of(line.detail))
            if line.what == "called":
                assert at not in kept, f"{at} was made again"
                made[at] = line.detail
            assert line.detail == made[at], f"{at} was given another result"
            if line.what == "returned":
                kept.add(at)


def call_of(result: str) -> str:
    """Return the name and the number of a call, of its result."""
    return " ".join(result.split(" ")[:2])


def check_items(told: Story, items: list[str], ledger: Ledger) -> None:
    """Check that every item is there once, in order, and is what the run of the step that was saved appended."""
    assert [call_of(item) for item in items] == told.items
    returned = {(line.turn, call_of(line.detail)): line.detail for line in ledger.lines("returned")}
    for number, item in enumerate(items[:4]):
        assert item == returned[number // 2 + 1, call_of(item)]


def check_signals(told: Story, store: Store, record: TaskRecord, ledger: Ledger) -> None:
    """Check that each signal was received by its step, by each run of it, and by no other; and is used up."""
    for line in ledger.lines("received"):
        assert line.detail == told.received.get((line.step, line.turn), ""), line
    assert {(line.step, line.turn) for line in ledger.lines("received")} >= set(told.received)
    mailbox = MailboxItem.objects.using(store.alias).filter(task_id=record.id).order_by("seq")
    kept = list(mailbox.values_list("kind", "name", "payload", "seq"))
    sent = {**told.early, **told.late}
    assert kept == [("signal", name, f'"{sent[name]}"', seq) for seq, name in enumerate(sent, 1)]
    assert not mailbox.filter(used_at=None).exists(), "a signal that its step has received is not used up"
    assert not mailbox.filter(dropped=True).exists()
