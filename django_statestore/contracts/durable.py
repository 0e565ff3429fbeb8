"""durable: an exclusive lease on an id, and the checkpoint that is saved under it. The contract for foreign engines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .. import codec
from ..exceptions import CheckpointInvalid, LeaseLost, OutcomeUnknown, StoreUnavailable, TaskBusy
from ..flow import Action, Flow, both
from ..keys import Entry, Namespace, Scope
from ..renewer import RenewingBackend
from ..ttl import Duration, milliseconds, wait_milliseconds
from .checkpoint import Checkpoint
from .tokens import new_token, token_digest

if TYPE_CHECKING:
    from .exclusive import Exclusive, HeldTask

DEFAULT_LEASE = 60


class DurablePrimitives(RenewingBackend):
    """Be what a backend fills in. A checkpoint travels with its state as payload text; ``token`` is a digest."""

    @abstractmethod
    def durable_load(self, entry: Entry) -> Action[tuple[Checkpoint, str] | None]:
        """Return the checkpoint, its state left out, and the payload of its state; None: never saved."""

    @abstractmethod
    def durable_claim(self, entry: Entry, token: bytes, lease: int) -> Action[int | None]:
        """Take the lease where nobody, or this token, holds it alive; return the fence, or None."""

    @abstractmethod
    def durable_commit(self, entry: Entry, token: bytes, checkpoint: Checkpoint, payload: str) -> Action[bool]:
        """Replace the checkpoint under the lease of ``token``; False: another took over, and nothing was written."""

    @abstractmethod
    def durable_save(self, entry: Entry, checkpoint: Checkpoint, payload: str) -> Action[bool]:
        """Replace the checkpoint where nobody holds a living lease; False: somebody does."""

    @abstractmethod
    def durable_renew(self, held: Sequence[tuple[Entry, bytes, int]]) -> Action[list[bool]]:
        """Renew leases; return for each whether it is still held."""

    @abstractmethod
    def durable_release(self, entry: Entry, token: bytes) -> Action[bool]:
        """Give the lease back; False: another took over."""


@dataclass(frozen=True, slots=True)
class DurableClaim:
    """Be a claimed lease. The token may travel to another process."""

    id: str
    token: str = field(repr=False)
    fence: int
    checkpoint: Checkpoint | None = field(repr=False)
    """What was saved last; None: nothing yet."""


class Durable:
    """Keep the checkpoints of durable tasks, each under an exclusive lease.

    Everything here must be durable when it returns: on a database it is refused inside an open transaction.
    """

    name = "durable"

    def __init__(self, backend: DurablePrimitives, names: Namespace) -> None:
        self.primitives = backend
        self._scope = Scope("task", names)

    def __repr__(self) -> str:
        return f"<Durable namespace={self._scope.names!r}>"

    def entry(self, id: str) -> Entry:
        """Return the identity of a task id in this namespace, or refuse the id."""
        return self._scope.entry(id, "the task id")

    def exclusive(self, id: str, wait: Duration = 30, lease: Duration = DEFAULT_LEASE) -> Exclusive:
        """Hold the lease on ``id`` while a block runs: ``with store.durable.exclusive("t") as held:``, or its twin.

        Others wait or fail meanwhile: ``TaskBusy`` after ``wait`` seconds, or at once where this flow already holds
        it. The lease is renewed while the block runs. ``held`` has ``fence``, ``lost`` and ``check()``.
        """
        from .exclusive import Exclusive

        return Exclusive(self, id, wait_milliseconds(wait) / 1000, milliseconds(lease, "lease") / 1000)

    def _load(self, id: str) -> Flow[Checkpoint | None]:
        """Return the checkpoint of ``id``, or None if it was never saved. The state is a copy of its own."""
        return (yield from self._loaded(self.entry(id)))

    def _loaded(self, entry: Entry) -> Flow[Checkpoint | None]:
        loaded = yield from self.primitives.durable_load(entry)
        if loaded is None:
            return None
        checkpoint, payload = loaded
        return replace(checkpoint, state=codec.loads(payload))

    def _save(self, id: str, checkpoint: Checkpoint) -> Flow[None]:
        """Replace the whole checkpoint of ``id``; it is durable when this returns.

        Inside ``exclusive`` it is written under that lease, and ``LeaseLost`` says that another took over. Elsewhere it
        takes the lease for this one write, or raises ``TaskBusy``.

        A task of this package's engine goes on from what was saved. Sleeps and back-offs are not cut short; a wait for
        a signal ends where the save leaves its step, and is kept otherwise.
        """
        held = self._held_here(id)
        if held is not None:
            yield from self._commit(id, held.token, checkpoint)
            return
        entry, payload = self.entry(id), _payload(checkpoint)
        if not (yield from self.primitives.durable_save(entry, checkpoint, payload)):
            raise TaskBusy(f"the task {id!r} is held by another: its checkpoint was not saved")

    def _held_here(self, id: str) -> HeldTask | None:
        from .exclusive import held_here

        return held_here(self.primitives, self.entry(id))

    def _claim(self, id: str, lease: Duration = DEFAULT_LEASE) -> Flow[DurableClaim | None]:
        """Take the lease on ``id`` for ``lease`` seconds, or return None at once if another holds it."""
        return (yield from self.claim_as_flow(id, lease, new_token()))

    def claim_as_flow(self, id: str, lease: Duration, token: str) -> Flow[DurableClaim | None]:
        """Claim with a token made before: a repeat recognises its own lease."""
        entry = self.entry(id)
        fence = yield from self.primitives.durable_claim(entry, token_digest(token), milliseconds(lease, "lease"))
        if fence is None:
            return None
        try:
            return DurableClaim(id, token, fence, (yield from self._loaded(entry)))
        except StoreUnavailable as error:  # whose word is that nothing was written
            raise OutcomeUnknown(
                f"the lease on the task {id!r} was taken, but the store broke off before its checkpoint was read: "
                "the lease ends by itself"
            ) from error

    def _commit(self, id: str, token: str, checkpoint: Checkpoint) -> Flow[None]:
        """Replace the checkpoint under the lease of ``token``; ``LeaseLost``: another took over."""
        payload = _payload(checkpoint)
        if not (yield from self.primitives.durable_commit(self.entry(id), token_digest(token), checkpoint, payload)):
            raise LeaseLost(f"the lease on the task {id!r} was lost: its checkpoint was not saved")

    def _renew(self, id: str, token: str, lease: Duration = DEFAULT_LEASE) -> Flow[bool]:
        """Let the lease live ``lease`` seconds from now; False: another took over."""
        held = (self.entry(id), token_digest(token), milliseconds(lease, "lease"))
        return (yield from self.primitives.durable_renew([held]))[0]

    def _release(self, id: str, token: str) -> Flow[bool]:
        """Give the lease back; False: another took over, and nothing changed."""
        return (yield from self.primitives.durable_release(self.entry(id), token_digest(token)))

    load, aload = both(_load)
    save, asave = both(_save)
    claim, aclaim = both(_claim)
    commit, acommit = both(_commit)
    renew, arenew = both(_renew)
    release, arelease = both(_release)


def _payload(checkpoint: Checkpoint) -> str:
    if not isinstance(checkpoint, Checkpoint):
        raise CheckpointInvalid(f"expected a Checkpoint, got {type(checkpoint).__qualname__}: see Checkpoint.from_json")
    return codec.dumps(checkpoint.state)
