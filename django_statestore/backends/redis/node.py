"""One server: its connections, blocking ones and those of each event loop, and what is sent over them.

A connection that is found dead before anything is sent is replaced. After that nothing is ever sent twice here.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from redis.exceptions import AuthenticationError, BusyLoadingError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import ConnectionError as BrokenConnection

from ...flow import Action
from .command import Argument
from .faults import Lost, Refused, Unreached
from .location import Location

AsyncPool: TypeAlias = Any  # half of redis-py has no types

# redis-py makes connection errors of these, but they are replies: the server did nothing.
_REPLIES = (ResponseError, AuthenticationError, BusyLoadingError)
# And all that follow would be the same. The next connection may find the server in another state, or another server.
_TURNS_AWAY = (AuthenticationError, BusyLoadingError, ReadOnlyError)
_BREAKS = (RedisError, OSError, EOFError)


class Node:
    """Be one server."""

    def __init__(self, location: Location, **changes: Any) -> None:
        self.where = location.where
        self._location, self._changes = location, changes
        self._pool = location.pool(**changes)
        self._seconds = location.seconds
        self._async_pools: dict[asyncio.AbstractEventLoop, tuple[AsyncPool, AsyncGenerator[None, None]]] = {}
        self._inherited: list[Any] = []
        self._pid = os.getpid()

    def exchange(self, commands: Sequence[Sequence[Argument]]) -> Exchange:
        """Send commands together, in one round trip, and return the replies; errors are among them, not raised."""
        return Exchange(self, commands)

    def close(self) -> None:
        """Close the blocking connections; the next call makes new ones."""
        self._pool.disconnect()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next call makes new ones."""
        held = self._async_pools.pop(asyncio.get_running_loop(), None)
        if held:
            await held[1].aclose()

    # -- blocking -----------------------------------------------------------------------------------------------------

    def send(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        try:
            connection, generation = self._pool.lend()
        except _BREAKS as error:
            raise _failed(error) from None
        try:
            connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            replies: list[Any] = []
            for _ in commands:
                try:
                    replies.append(connection.read_response())
                except _REPLIES as reply:
                    replies.append(reply)
                    if isinstance(reply, _TURNS_AWAY):
                        connection.disconnect()
                        break
            return replies + replies[-1:] * (len(commands) - len(replies))
        except _BREAKS as error:
            connection.disconnect()
            raise Lost(error) from None
        except BaseException:  # out of a signal handler: a reply that is still on its way must not answer another call
            connection.disconnect()
            raise
        finally:
            self._pool.give_back(connection, generation)

    # -- asynchronous -------------------------------------------------------------------------------------------------

    async def asend(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        pool = await self._async_pool()
        try:
            connection = await self._async_connection(pool)
        except _BREAKS as error:
            raise _failed(error) from None
        try:
            async with asyncio.timeout(self._seconds):
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
                replies: list[Any] = []
                for _ in commands:
                    try:
                        replies.append(await connection.read_response())
                    except _REPLIES as reply:
                        replies.append(reply)
                        if isinstance(reply, _TURNS_AWAY):
                            await connection.disconnect(nowait=True)
                            break
            return replies + replies[-1:] * (len(commands) - len(replies))
        except _BREAKS as error:
            await connection.disconnect(nowait=True)
            raise Lost(error) from None
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await pool.release(connection)

    async def _async_connection(self, pool: AsyncPool) -> Any:
        """Return a connection that is alive as far as can be seen."""
        # Waiting for one to be free and connecting have limits of their own; the handshake has none.
        async with asyncio.timeout(self._seconds and self._seconds * 3):
            connection = await pool.get_connection()
            try:
                try:
                    if _readable(connection):  # closed by the server, though the event loop has not seen it yet
                        raise BrokenConnection
                    await connection.check_health()
                except _BREAKS:
                    await connection.disconnect(nowait=True)
                    await connection.connect()
            except BaseException:
                await pool.release(connection)
                raise
            return connection

    async def _async_pool(self) -> AsyncPool:
        """Return the pool of the running event loop, which closes it when it ends."""
        loop = asyncio.get_running_loop()
        held = self._async_pools.get(loop)
        if held is not None and self._pid == os.getpid():
            return held[0]
        # Without a lock: a thread that held it as another one forked would leave it locked in the child.
        if self._pid != os.getpid():
            # The parent's connections are kept, unused: collected here they would be closed under the parent.
            self._inherited.append(self._async_pools)
            self._async_pools, self._pid = {}, os.getpid()
        for other in [each for each in tuple(self._async_pools) if each.is_closed()]:
            self._async_pools.pop(other, None)
        pool = self._location.async_pool(**self._changes)
        guard = self._closes_with_its_loop(loop, pool)
        self._async_pools[loop] = (pool, guard)
        await anext(guard)
        return pool

    async def _closes_with_its_loop(self, loop: asyncio.AbstractEventLoop, pool: AsyncPool) -> AsyncGenerator[None]:
        # An event loop ends the asynchronous generators that were begun in it before it is closed.
        try:
            yield
        finally:
            self._async_pools.pop(loop, None)
            with suppress(*_BREAKS):
                await pool.disconnect()


class Exchange(Action[list[Any]]):
    """Send some commands to a node in one round trip."""

    __slots__ = ("_commands", "_node")

    def __init__(self, node: Node, commands: Sequence[Sequence[Argument]]) -> None:
        self._node, self._commands = node, commands

    def run(self) -> list[Any]:
        return self._node.send(self._commands)

    async def arun(self) -> list[Any]:
        return await self._node.asend(self._commands)


def _failed(error: BaseException) -> Unreached:
    """Return what a handshake that failed is told as; redis-py wraps some replies once more."""
    reply = next((each for each in (error, error.__cause__) if isinstance(each, _REPLIES)), None)
    return Unreached(error) if reply is None else Refused(reply)


def _readable(connection: Any) -> bool:
    """Return whether something waits in the socket of an idle connection: only its end can."""
    writer = getattr(connection, "_writer", None)
    sock = writer.get_extra_info("socket") if writer is not None else None
    if sock is None or sock.fileno() < 0 or not hasattr(select, "poll"):  # Windows has none
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))
