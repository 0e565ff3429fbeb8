"""``manage.py demo``, as somebody who has just cloned the project runs it."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest
from django.core.management import CommandError

from testproject.demo.management.commands.demo import text as text_of
from testproject.demo.processes import group_is_left, within
from tests.processes import ROOT

MINUTE = 60.0


class Place:
    """A database and a broker folder of a demo's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STATESTORE_")}
        kept.pop("DJANGO_SETTINGS_MODULE", None)
        self.environment = kept | {
            "STATESTORE_SQLITE": str(folder / "demo.sqlite3"),
            "STATESTORE_BROKER": str(folder / "broker"),
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MINUTE,
        )


def pids(output: str) -> list[int]:
    """Return the processes that a demo said it had started."""
    return [int(pid) for pid in re.findall(r"\b(?:worker|beat|server) (\d+)", output)]


def none_is_left(output: str) -> bool:
    found = set(pids(output))
    assert found
    return within(5, lambda: not any(group_is_left(pid) for pid in found))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def interrupted(place: Place) -> tuple[int, str]:
    """Press Ctrl-C while a demo waits for its reader; return its exit status and output."""
    arguments = "--approve-in-admin", str(short_text(place.folder))
    return stopped_by(place, signal.SIGINT, "password demo", *arguments)


@pytest.fixture(scope="module")
def finished(place: Place, interrupted: tuple[int, str]) -> tuple[int, str, float]:
    """Run a whole demo where one was interrupted; return its exit status, its output and its seconds."""
    started = time.monotonic()
    done = place.run("demo")
    return done.returncode, done.stdout, time.monotonic() - started


def stopped_by(place: Place, number: signal.Signals, after: str = "read_section", *arguments: str) -> tuple[int, str]:
    """Send a demo a signal once it has printed something; return its exit status and output."""
    demo = place.start("demo", *arguments)
    assert demo.stdout is not None
    output = ""
    try:
        while after not in output:
            line = demo.stdout.readline()
            assert line, output
            output += line
        demo.send_signal(number)
        rest, _ = demo.communicate(timeout=MINUTE)
    finally:
        demo.kill()
        demo.communicate()
    return demo.returncode, output + rest


def test_ctrl_c_leaves_no_process(interrupted: tuple[int, str]) -> None:
    status, output = interrupted
    assert status == 128 + signal.SIGINT
    assert output.splitlines()[-1].startswith("CommandError: interrupted (SIGINT)")
    assert re.search(r"started server \d+, for the admin", output), output
    assert none_is_left(output)


def test_a_whole_demo(finished: tuple[int, str, float]) -> None:
    status, output, seconds = finished
    assert status == 0, output
    assert seconds < MINUTE
    assert none_is_left(output)
    assert "an earlier demo was interrupted" in output
    assert re.search(r"x killed worker \d+ inside step 'read_section', turn 4", output), output
    assert re.search(r"x killed worker \d+ inside step 'book_report', turn 1", output), output
    assert re.search(r"x killed worker \d+ inside step 'record_report', turn 1", output), output
    assert len(re.findall(r"the sweep sent the task to worker \d+ after \d+\.\d s", output)) == 3, output
    assert re.search(r"read_section +4 +2 repeated", output), "the attempt of the killed worker counts"
    assert re.search(r"build_report +1 +1 waited", output), output
    assert "the task waits for the signal 'approval' until" in output
    assert "demo has answered" in output
    assert re.search(r"book_report +1 +2 done", output), "the attempt of the killed worker counts"
    assert re.search(r"record_report +1 +1 reconciled", output), output
    claims = re.findall(r"^  ok      (.*)$", output, re.MULTILINE)
    assert len(claims) == 13
    assert "FAILED" not in output


def test_the_demo_shows_where_to_look(place: Place, finished: tuple[int, str, float]) -> None:
    url = re.search(r"http://127\.0\.0\.1:8000(\S+)", finished[1])
    assert url is not None
    with server(place) as (browser, base):
        assert "Log out" in log_in(browser, f"{base}/admin/")
        assert "demo.read_text" in get(browser, f"{base}/admin/statestore/task/")
        task = get(browser, base + url[1])
        assert "reconciled" in task
        assert 'name="_save"' not in task, "tasks are to be looked at"
        assert "LICENSE" in get(browser, f"{base}/admin/demo/report/")
        assert ">1</td>" in get(browser, f"{base}/admin/demo/booking/")


def log_in(browser: OpenerDirector, url: str) -> str:
    """Follow a URL of the admin to its login, and return the page that was asked for."""
    page = get(browser, url)
    path = re.sub(r"^http://[^/]+", "", url)
    form = {"csrfmiddlewaretoken": hidden(page, "csrfmiddlewaretoken"), "next": path}
    login = f"{url.removesuffix(path)}/admin/login/"
    return get(browser, login, urlencode({**form, "username": "demo", "password": "demo"}).encode())


def hidden(page: str, name: str) -> str:
    value = re.search(rf'name="{name}" value="([^"]+)"', page)
    assert value is not None, page
    return value[1]


def answer_in_admin(demo: "subprocess.Popen[str]", decision: str) -> str:
    """Read what a demo prints until it asks for an answer, give it as a reader does, and return what was printed."""
    assert demo.stdout is not None
    output, url = "", None
    while url is None:
        line = demo.stdout.readline()
        assert line, output
        output += line
        url = re.search(r"http://127\.0\.0\.1:\d+/\S+/answer/", line)
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    page = log_in(browser, url[0])
    assert "approval" in page
    assert "Reject it" in page
    assert "Log out" in page
    form = {name: hidden(page, name) for name in ("csrfmiddlewaretoken", "_wait")} | {"decision": decision}
    assert "Your answer was kept; the task goes on." in get(browser, url[0], urlencode(form).encode())
    return output


def test_the_reader_rejects_the_report_in_the_admin(tmp_path: Path) -> None:
    demo = Place(tmp_path).start("demo", "--approve-in-admin", str(short_text(tmp_path)))
    try:
        output = answer_in_admin(demo, "reject")
        rest, _ = demo.communicate(timeout=MINUTE)
    finally:
        demo.kill()
        demo.communicate()
    assert demo.returncode == 0, output + rest
    assert re.search(r"hear_answer +1 +1 failed", rest), rest
    assert "the task is cancelled: rejected" in rest
    assert "The report of short.txt, which was rejected" in rest
    assert len(re.findall(r"^  ok      ", rest, re.MULTILINE)) == 8, rest
    assert "FAILED" not in rest
    assert none_is_left(output + rest)


def test_the_reader_approves_the_report_in_the_admin(tmp_path: Path) -> None:
    demo = Place(tmp_path).start("demo", "--approve-in-admin", str(short_text(tmp_path)))
    assert demo.stdout is not None
    try:
        output = answer_in_admin(demo, "approve")
        while not re.search(r"hear_answer +1 +1 done", output):
            line = demo.stdout.readline()
            assert line, output
            output += line
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=MINUTE)
    finally:
        demo.kill()
        demo.communicate()
    assert "demo has answered; a worker takes the task up again" in output
    assert demo.returncode == 128 + signal.SIGINT
    assert none_is_left(output + rest)


def short_text(folder: Path) -> Path:
    """Make a text of one section, so that there is little to wait for."""
    path = folder / "short.txt"
    path.write_text("A short text")
    return path


@contextmanager
def server(place: Place) -> Iterator[tuple[OpenerDirector, str]]:
    """Serve the demo's database, as the demo says; yield a browser and the server's address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = place.start("runserver", "--noreload", f"127.0.0.1:{port}")
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    base = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return bool(get(browser, f"{base}/admin/login/"))
        except URLError:
            return False

    try:
        assert within(MINUTE, answers)
        yield browser, base
    finally:
        process.kill()
        process.communicate()


def get(browser: OpenerDirector, url: str, form: bytes | None = None) -> str:
    with browser.open(url, form, timeout=30) as response:
        text: str = response.read().decode()
    return text


def test_a_demo_that_is_killed_takes_its_processes_along(tmp_path: Path) -> None:
    status, output = stopped_by(Place(tmp_path), signal.SIGKILL)
    assert status == -signal.SIGKILL
    assert none_is_left(output)


def test_one_demo_at_a_time(tmp_path: Path) -> None:
    place = Place(tmp_path)
    first = place.start("demo")
    try:
        assert within(MINUTE, (tmp_path / "broker" / "control").exists)
        assert one_line(place.run("demo")) == "CommandError: another demo is running here: wait for its end"
    finally:
        first.kill()
        output, _ = first.communicate()
    assert not pids(output) or none_is_left(output)


def one_line(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1, done.stdout
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("nowhere.txt", "cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("empty", "is empty"),
        ("binary", "is no text"),
        ("long", "is too long"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, given: str, problem: str) -> None:
    for name, content in {"empty": b"", "binary": b"a\0b", "long": b"a line\n" * 800_000}.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CommandError, match=problem):
        text_of(str(tmp_path / given))


def test_a_worker_that_dies_by_itself_fails_the_demo(tmp_path: Path) -> None:
    demo = Place(tmp_path).start("demo")
    assert demo.stdout is not None
    output = ""
    try:
        while "started worker" not in output:
            output += demo.stdout.readline()
        os.killpg(pids(output)[0], signal.SIGKILL)
        rest, _ = demo.communicate(timeout=MINUTE)
    finally:
        demo.kill()
        demo.communicate()
    assert demo.returncode == 1
    assert f"CommandError: worker {pids(output)[0]} ended by itself, with status -9; Celery's log is " in rest
    assert none_is_left(output)


def test_an_old_sqlite_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    program = (
        "import runpy, sqlite3, sys; sqlite3.sqlite_version_info = (3, 34, 1); sqlite3.sqlite_version = '3.34.1'; "
        "sys.argv = ['manage.py', 'demo']; runpy.run_path('manage.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=place.environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["CommandError: the demo needs SQLite 3.35 or later; this Python has 3.34.1"]
