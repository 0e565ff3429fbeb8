"""Who approves the demo's report: the demo itself, or its reader in the admin."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable

from django.contrib.auth import get_user_model
from django.urls import reverse

from django_statestore import stores
from django_statestore.durable import TaskHandle
from django_statestore.services.answers import answer
from testproject.demo.durable_tasks import APPROVAL_SECONDS, Reading
from testproject.demo.place import LOGIN
from testproject.demo.processes import Process, Processes, within
from testproject.demo.timeline import Timeline

THINK_SECONDS = 1.2
"""How long the demo lets its task wait."""

_START_SECONDS = 30.0


class Approver(ABC):
    """Answer what the task waits for."""

    patience: float = 30.0
    """How many seconds after it was asked the task must have gone on."""

    lingers: float = 0.0
    """How many seconds after the answer the processes must stay."""

    def ask(self, task: TaskHandle[Reading]) -> None:
        """Take the task; it waits."""
        self._task = task

    @abstractmethod
    def tick(self, seconds: float) -> None:
        """Do what there is to do so many seconds later; called again and again."""


class Demo(Approver):
    """Let the demo approve, a moment later, by the service that the admin calls too."""

    _answered = False

    def tick(self, seconds: float) -> None:
        if seconds >= THINK_SECONDS and not self._answered:
            self._answered = True
            user = get_user_model().objects.get(username=LOGIN)
            answer(stores["default"], self._task.id, {"decision": "approve"}, user)


class Reader(Approver):
    """Serve the admin, and let its reader answer there."""

    patience = APPROVAL_SECONDS + 30.0  # the task's own time-out comes first
    lingers = 5.0  # whoever has answered gets to see the page of the task

    def __init__(self, processes: Processes, timeline: Timeline, interrupted: Callable[[], None]) -> None:
        self._processes, self._timeline, self._interrupted = processes, timeline, interrupted

    def ask(self, task: TaskHandle[Reading]) -> None:
        super().ask(task)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port: int = probe.getsockname()[1]
        server = self._processes.server(port)
        within(_START_SECONDS, lambda: self._serves(server, port))
        self._timeline.event(f"started {server}, for the admin. This is the report:")
        for line in task.state.body.splitlines():
            self._timeline.say(f"            {line}")
        self._timeline.event("approve it, or reject it, at")
        page = reverse("admin:statestore_task_answer", args=[task.record.id])
        self._timeline.say(f"            http://127.0.0.1:{port}{page}")
        self._timeline.say(f"            user {LOGIN}, password {LOGIN}")

    def tick(self, seconds: float) -> None:
        """Leave it to the reader."""

    def _serves(self, server: Process, port: int) -> bool:
        self._interrupted()
        if server.died:
            return True  # the story tells
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True
