"""What must hold of a journey, seen from outside: from the rows and the ledger."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields

from django_statestore import Store
from django_statestore.durable import TaskHandle
from django_statestore.durable.task import engine_of
from django_statestore.models import Snapshot
from tests.crash.journey import CALLS, EFFECTS, END, Trip
from tests.crash.ledger import Ledger

SAVES = len(END.done)


@contextmanager
def killed_at(*points: str) -> Iterator[None]:
    """Say with a failed check where the killed workers were."""
    try:
        yield
    except Exception as error:
        error.add_note(f"killed at: {', then at: '.join(points)}")
        raise


def check_killed(store: Store, ledger: Ledger) -> None:
    """Check what a killed worker leaves: nothing that it was told is saved is lost, no entry is uncounted."""
    record = engine_of(store).task_read(store.durable.entry(ledger.path.name)).run()
    entered, saved = ledger.lines("entered"), ledger.lines("saved")
    if record is None:
        assert not entered
        assert not saved
        return
    assert record.attempts >= len(entered)
    assert record.reserved_calls >= len(ledger.lines("effect"))
    kept = Snapshot.objects.using(store.alias).filter(task_id=record.id)
    states = dict(kept.values_list("save_seq", "state"))
    assert sorted(states) == list(range(record.save_seq + 1)), "a save without its state, or a state without its save"
    assert states[record.save_seq] == record.state
    for line in saved:
        assert states[line.turn] == line.detail


def check_arrived(handle: TaskHandle[Trip], ledger: Ledger, *, deaths: int, unused: int | None = None) -> None:
    """Check that the task has come to its end as if nobody had died.

    ``unused``: how many attempts may have been spent on entries that never ran; by default one a death.
    """
    assert (handle.status, handle.reason, handle.state) == ("completed", "", END)
    assert handle.record.save_seq == SAVES
    effects = [(line.step, line.turn) for line in ledger.lines("effect")]
    assert effects == EFFECTS
    check_never_blind(ledger)
    entered = len(ledger.lines("entered"))
    assert entered <= handle.record.attempts <= entered + (deaths if unused is None else unused)
    # A clean save gives back what was not used; whoever died, or whose step reconcile found done, gives nothing back.
    assert len(EFFECTS) <= handle.record.reserved_calls <= len(EFFECTS) + deaths * CALLS
    check_view(handle)


def check_view(handle: TaskHandle[Trip]) -> None:
    """Check that a worker returns what is stored, without having read it again; only what it cannot know may differ."""
    stored = handle.refresh().record
    for name in (field.name for field in fields(stored) if field.name not in ("now", "finished_at", "saved_by")):
        assert getattr(handle.record, name) == getattr(stored, name), name


def check_never_blind(ledger: Ledger, steps: Collection[str] = ("book", "pay")) -> None:
    """Check that no reconcile step was entered again before its reconcile function had said: not done."""
    begun: set[tuple[str, int]] = set()
    for line in ledger.lines():
        place = (line.step, line.turn)
        if line.what == "entered" and line.step in steps:
            assert place not in begun, f"{place} was entered again without being asked"
            begun.add(place)
        elif line.what == "asked" and line.detail == "not done":
            begun.discard(place)
