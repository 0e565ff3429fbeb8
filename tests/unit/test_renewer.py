"""The threads that renew leases."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from django_statestore.backends.memory import MemoryBackend
from django_statestore.flow import Action, Call
from django_statestore.keys import Entry
from django_statestore.renewer import renewer


class Stuck(MemoryBackend):
    """Be a store that does not answer when it is asked to renew."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()

    def lock_renew(self, held: Sequence[tuple[Entry, bytes, int]]) -> Action[list[bool]]:
        def wait() -> list[bool]:
            self.asked.set()
            self.answer.wait(20)
            return [True for _ in held]

        return Call(wait)


def test_a_store_that_hangs_does_not_stop_the_renewals_of_another() -> None:
    stuck, sound = Stuck(), MemoryBackend().store()
    with stuck.store().lock.hold("k", ttl=0.3), sound.lock.hold("k", ttl=0.3) as held:
        assert stuck.asked.wait(20)
        before, until = held.renewed_at, time.monotonic() + 20
        while held.renewed_at == before and time.monotonic() < until:
            time.sleep(0.01)
        assert held.renewed_at > before
        stuck.answer.set()
    assert not renewer.leases
