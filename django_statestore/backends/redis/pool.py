"""The blocking connections of a process to one server, lent and given back.

redis-py has such a pool, but an exception out of a signal handler, as a soft time limit raises it, may leave the locks
in that one locked for ever, and a half-made connection in it. What is shared here changes in single steps of the
interpreter, under no lock of ours: what such an exception can still cost is one place.
"""

from __future__ import annotations

import os
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any

import redis.connection
from redis.exceptions import ConnectionError as BrokenConnection
from redis.exceptions import RedisError

_BREAKS = (RedisError, OSError, EOFError)


class Pool:
    """Keep up to ``max_connections`` connections; who finds all of them lent waits ``timeout`` seconds for one."""

    def __init__(
        self,
        *,
        max_connections: int,
        timeout: float,
        connection_class: Any = redis.connection.Connection,
        **connection_kwargs: Any,
    ) -> None:
        if max_connections < 1:
            raise ValueError("max_connections must be 1 or more")
        self.connection_class, self.connection_kwargs = connection_class, connection_kwargs
        self._most, self._timeout = max_connections, timeout
        self._start_over()

    def _start_over(self) -> None:
        self._idle: deque[Any] = deque()
        self._places: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._most):
            self._places.put(None)
        self._generation, self._pid = 0, os.getpid()

    def lend(self) -> tuple[Any, int]:
        """Return a connection that is alive as far as can be seen, and what to give back with it."""
        if self._pid != os.getpid():
            self._start_over()  # the parent's connections are its own
        try:
            self._places.get(timeout=self._timeout)
        except Empty:
            raise BrokenConnection("no connection is free") from None
        generation, connection = self._generation, None
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self.connection_class(**self.connection_kwargs)
            self._ready(connection)
        except BaseException:
            if connection is not None:
                connection.disconnect()  # part of the handshake may still be on its way
            self._places.put(None)
            raise
        return connection, generation

    def give_back(self, connection: Any, generation: int) -> None:
        """Take a connection back; one that was broken is disconnected and connects anew."""
        if generation == self._generation:
            self._idle.append(connection)
        else:
            connection.disconnect()
        self._places.put(None)

    def disconnect(self) -> None:
        """Close what is idle now, and the others as they are given back."""
        self._generation += 1
        while self._idle:
            try:
                self._idle.pop().disconnect()
            except IndexError:  # somebody else was quicker
                break

    @staticmethod
    def _ready(connection: Any) -> None:
        connection.connect()
        try:
            if connection.can_read():  # only its end can be there, or a reply that nobody waited for
                raise BrokenConnection
            connection.check_health()
        except _BREAKS:
            connection.disconnect()
            connection.connect()
