"""A way to lose one message between this process and its PostgreSQL: a proxy on a Unix socket that hangs up."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from django.db import connections

Loss: TypeAlias = Literal["request", "answer"]
"""The server never sees the statement; or it has done it, and its answer is lost."""

_READY, _COMPLETE = b"Z", b"C"


class Proxy:
    """Pass everything on, until `lose` is set: then lose that much of a statement, and hang up.

    `spared` is how many messages, or answers, pass before.
    """

    def __init__(self, folder: Path, server: dict[str, Any]) -> None:
        self.lose: Loss | None = None
        self.spared = 0
        self.requests = 0
        """How often the client has sent something."""
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for open_ in self._open:
            with contextlib.suppress(OSError):
                open_.shutdown(socket.SHUT_RDWR)
            open_.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, server = self._listener.accept()[0], self._connect()
                self._open += [client, server]
                for pump in (self._requests, self._answers):
                    threading.Thread(target=self._pump, args=(pump, client, server), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = str(self._server["HOST"] or "localhost"), int(self._server["PORT"] or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _spare(self) -> bool:
        self.spared -= 1
        return self.spared >= 0

    @staticmethod
    def _pump(pump: Any, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            pump(client, server)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        while data := client.recv(65536):
            self.requests += 1
            if self.lose == "request" and not self._spare():
                self.lose = None
                return
            server.sendall(data)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        held, kinds = b"", set()
        for kind, frame in _frames(server):
            if self.lose != "answer":
                client.sendall(frame)
                continue
            held += frame
            kinds.add(kind)
            if kind == _READY:
                if _COMPLETE in kinds and not self._spare():
                    self.lose = None
                    return
                client.sendall(held)  # the statement was only prepared: it has not been done yet
                held, kinds = b"", set()


def _frames(server: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and the bytes of each message of the server."""
    buffer = b""
    while data := server.recv(65536):
        buffer += data
        while len(buffer) >= 5 and len(buffer) >= (size := 1 + struct.unpack("!I", buffer[1:5])[0]):
            yield buffer[:1], buffer[:size]
            buffer = buffer[size:]


@contextlib.contextmanager
def through_proxy(alias: str, folder: Path) -> Iterator[Proxy]:
    """Lead this process's connections on `alias` over a proxy."""
    settings = connections[alias].settings_dict
    before = {name: settings[name] for name in ("HOST", "PORT")}
    connections[alias].close()
    proxy = Proxy(folder, before)
    settings.update(HOST=str(folder), PORT="")
    try:
        yield proxy
    finally:
        settings.update(before)
        connections[alias].close()
        proxy.close()
