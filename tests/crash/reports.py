"""What a worker says of its own writes: a line in the ledger for each that was acknowledged to it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django_statestore import Store
from django_statestore.contracts.journal import CallLine
from django_statestore.contracts.mailbox import Reply, Request
from django_statestore.contracts.position import Position
from django_statestore.contracts.tasks import Committed, Save
from django_statestore.durable.task import engine_of
from django_statestore.flow import Action, Call
from django_statestore.keys import Entry
from tests.crash.ledger import Ledger


@contextmanager
def reporting(store: Store, ledger: Ledger) -> Iterator[None]:
    """Note every save, finished call and signal once its write has returned, as a worker that prints what it did."""
    backend = engine_of(store)
    commit, atomic, journal, request_ = (
        backend.task_commit,
        backend.task_atomic,
        backend.task_journal,
        backend.task_request,
    )

    def saved(at: Position, save: Save, committed: Committed | None) -> Committed | None:
        if committed is not None:
            ledger.write("saved", save.step, at.save_seq + 1, save.state)
        return committed

    def task_commit(at: Position, save: Save) -> Action[Committed | None]:
        return Call(lambda: saved(at, save, commit(at, save).run()))

    def task_atomic(at: Position, work: Callable[[], Save]) -> Action[Committed | None]:
        saves: list[Save] = []

        def noted() -> Save:
            saves.append(work())
            return saves[-1]

        return Call(lambda: saved(at, saves[-1], done) if (done := atomic(at, noted).run()) else None)

    def task_journal(at: Position, line: CallLine) -> Action[bool]:
        def work() -> bool:
            kept = journal(at, line).run()
            if kept:
                ledger.write("kept", line.name, at.save_seq, f"{line.occurrence} {line.value[:100]}")
            return kept

        return Call(work)

    def task_request(entry: Entry, request: Request) -> Action[Reply]:
        def work() -> Reply:
            reply = request_(entry, request).run()
            ledger.write("sent", request.name, detail=f"{request.key} {reply.answered}")
            return reply

        return Call(work)

    replaced = {
        "task_commit": task_commit,
        "task_atomic": task_atomic,
        "task_journal": task_journal,
        "task_request": task_request,
    }
    for name, replacement in replaced.items():
        setattr(backend, name, replacement)
    try:
        yield
    finally:
        for name in replaced:
            delattr(backend, name)
