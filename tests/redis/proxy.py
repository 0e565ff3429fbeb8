"""A way to lose one message between this process and its Redis: a proxy that hangs up."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

Loss: TypeAlias = Literal["request", "answer"]
"""The server never sees the command; or it has done it, and its answer is lost."""


class Proxy:
    """Pass everything on, until `lose` is set: then lose that much of what comes next, and hang up.

    It listens on a Unix socket, or without a path on a port of its own.
    """

    def __init__(self, path: Path | None, server: str) -> None:
        self.lose: list[Loss] = []
        """What to lose, first of it next."""
        self.turns = 0
        """How often the server answered, that is how often a client had to wait for it."""
        self.requests = 0
        """How often a client has sent something."""
        self.connections = 0
        self.delay = 0.0
        """How many seconds each answer is held back."""
        self._server = urlsplit(server)
        self._asked = False
        if path is None:
            self._listener = socket.socket()
            self._listener.bind(("127.0.0.1", 0))
            self.port = self._listener.getsockname()[1]
            self.url = f"redis://127.0.0.1:{self.port}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self.url = f"unix://{path}"
        self._listener.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._end(self._listener)
        self.hang_up()

    def hang_up(self) -> None:
        """Close every connection, as a server does with those that were idle for too long."""
        while self._open:
            self._end(self._open.pop())

    @staticmethod
    def _end(end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, server = self._listener.accept()[0], self._connect()
                self._open += [client, server]
                self.connections += 1
                for pump in (self._requests, self._answers):
                    threading.Thread(target=self._pump, args=(pump, client, server), daemon=True).start()

    def _connect(self) -> socket.socket:
        if self._server.scheme != "unix":
            return socket.create_connection((self._server.hostname or "localhost", self._server.port or 6379))
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server.path)
        return server

    def _pump(self, pump: object, client: socket.socket, server: socket.socket) -> None:
        assert callable(pump)
        with contextlib.suppress(OSError):
            pump(client, server)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        while data := client.recv(65536):
            self._asked = True
            self.requests += 1
            if self.lose[:1] == ["request"]:
                self.lose.pop(0)
                return
            server.sendall(data)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        while data := server.recv(65536):
            self.turns, self._asked = self.turns + self._asked, False
            if self.lose[:1] == ["answer"]:
                self.lose.pop(0)
                return
            time.sleep(self.delay)
            client.sendall(data)
