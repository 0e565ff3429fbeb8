"""The connections: per process and per event loop, made lazily, closed with what they belong to."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio.connection
from asgiref.sync import async_to_sync
from django.test import override_settings

from django_statestore import Store
from django_statestore.backends.redis import RedisBackend
from django_statestore.backends.redis.server import SingleServer
from django_statestore.exceptions import OutcomeUnknown, StoreMisconfigured

from .proxy import Proxy

# The other threads of this process wait for nothing that a fork needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def clients(raw: redis.Redis, prefix: str) -> int:
    """Count the connections that were made under the name of this test."""
    listed: Any = raw.client_list()
    return sum(each["name"] == prefix for each in listed)


@pytest.fixture
def named(url: str, prefix: str) -> Store:
    """Return a store whose connections can be counted."""
    return RedisBackend(location=f"{url}?client_name={prefix}", prefix=prefix).store()


def eventually(raw: redis.Redis, prefix: str, count: int) -> None:
    deadline = time.monotonic() + 20
    while clients(raw, prefix) != count:
        assert time.monotonic() < deadline, clients(raw, prefix)
        time.sleep(0.005)


# -- event loops ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run",
    [lambda main, *args: asyncio.run(main(*args)), lambda main, *args: async_to_sync(main)(*args)],
    ids=["asyncio", "asgiref"],
)
def test_each_event_loop_closes_its_connections_as_it_ends(
    named: Store, raw: redis.Redis, prefix: str, run: Any
) -> None:
    async def main(number: int) -> int:
        await asyncio.gather(*(named.kv.aset(f"k{each}", number) for each in range(20)))
        return clients(raw, prefix)

    for number in range(3):
        assert 1 <= run(main, number) <= 20
        gc.collect()
        eventually(raw, prefix, 0)
    assert named.kv.get("k7") == 2
    backend: Any = named.backend
    backend.close()
    eventually(raw, prefix, 0)


def test_one_event_loop_uses_its_connection_again(far: Store, proxy: Proxy) -> None:
    async def main() -> None:
        await far.kv.aset("k", 0)
        before = proxy.connections
        for number in range(10):
            await far.kv.aset("k", number)
            assert await far.kv.aget("k") == number
        assert proxy.connections == before

    asyncio.run(main())


def test_more_tasks_than_connections_wait_for_one(url: str, prefix: str, raw: redis.Redis) -> None:
    store = RedisBackend(location=f"{url}?client_name={prefix}&max_connections=3", prefix=prefix).store()

    async def main() -> int:
        await asyncio.gather(*(store.list.aappend("l", number) for number in range(200)))
        return clients(raw, prefix)

    assert asyncio.run(main()) == 3
    assert store.list.length("l") == 200


def test_aclose_closes_the_connections_of_this_loop_and_the_store_goes_on(
    named: Store, raw: redis.Redis, prefix: str
) -> None:
    backend: Any = named.backend

    async def main() -> None:
        await backend.aclose()
        await named.kv.aset("k", 1)
        assert clients(raw, prefix) == 1
        await backend.aclose()
        await asyncio.to_thread(eventually, raw, prefix, 0)
        assert await named.kv.aget("k") == 1

    asyncio.run(main())
    eventually(raw, prefix, 0)


def test_several_event_loops_at_once_have_their_own(named: Store) -> None:
    results: list[Any] = []

    async def main(number: int) -> None:
        for each in range(50):
            await named.list.aappend(f"l{number}", each)
        results.append(await named.list.arange(f"l{number}"))

    threads = [threading.Thread(target=lambda number=number: asyncio.run(main(number))) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [list(range(50))] * 4


def test_a_cancelled_call_leaves_nothing_for_the_next(far: Store, proxy: Proxy) -> None:
    async def main() -> None:
        await far.kv.aset("k", "right")
        for delay in range(30):
            task = asyncio.ensure_future(far.list.aappend("l", "wrong"))
            for _ in range(delay):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await far.kv.aget("k") == "right"
        assert await far.kv.aget("nothing") is None

    asyncio.run(main())


@contextmanager
def ended_before_the_reply() -> Iterator[None]:
    """Let a call end as by a soft time limit, whose signal raises anywhere: also between a command and its reply."""

    def ended(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        for connection in (redis.connection.AbstractConnection, redis.asyncio.connection.AbstractConnection):
            patch.setattr(connection, "read_response", ended)
        yield


def test_a_reply_that_nobody_waited_for_answers_no_other_call(named: Store, raw: redis.Redis, prefix: str) -> None:
    named.kv.set("mine", "mine")
    with ended_before_the_reply():
        named.kv.get("mine")
    eventually(raw, prefix, 0)
    assert named.kv.get("yours") is None


def test_nor_does_it_where_an_event_loop_reads(named: Store, raw: redis.Redis, prefix: str) -> None:
    async def main() -> None:
        await named.kv.aset("mine", "mine")
        with ended_before_the_reply():
            await named.kv.aget("mine")
        await asyncio.to_thread(eventually, raw, prefix, 0)
        assert await named.kv.aget("yours") is None

    asyncio.run(main())


@pytest.mark.parametrize("where", ["handshake", "health check"])
def test_nor_does_a_reply_to_what_comes_before_a_call(proxy: Proxy, prefix: str, where: str) -> None:
    """The answers take their time, so the one that nobody waited for is still on its way at the next call."""
    backend = RedisBackend(location=f"{proxy.url}?client_name=x&health_check_interval=1", prefix=prefix)
    store, server = backend.store(), backend.server
    assert isinstance(server, SingleServer)
    proxy.delay = 0.05
    if where == "health check":
        store.kv.set("mine", "mine")
        for connection in server._node._pool._idle:
            connection.next_health_check = 0.0
    with ended_before_the_reply():
        store.kv.get("mine")
    for _ in range(3):
        assert store.kv.get("yours") is None
        assert store.kv.get("mine") == ("mine" if where == "health check" else None)
    backend.close()


def test_calls_that_end_anywhere_lock_nobody_out(url: str, prefix: str) -> None:
    """A soft time limit, again and again: a lock that is left locked would keep the process waiting for ever."""
    code = f"""
import random, signal, sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
from django.conf import settings
settings.configure()
from django_statestore.backends.redis import RedisBackend

class Ended(BaseException):
    pass

def end(*_):
    raise Ended

signal.signal(signal.SIGALRM, end)
backend = RedisBackend(location={url!r} + "?max_connections=1000", prefix={prefix!r})
store, chance, ended = backend.store(), random.Random(1), 0

def calls():  # of its own: what a signal raises at the end of a loop's body passes by a handler around the loop
    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.002))
    for _ in range(50):
        assert store.kv.get("k") is None
    signal.setitimer(signal.ITIMER_REAL, 0)

while ended < 400:
    try:
        calls()
    except Ended:
        ended += 1
assert store.kv.add("k", 1)
print("done", 1000 - backend.server._node._pool._places.qsize() < 100)
"""
    assert python(code).strip() == "done True"


def test_closing_does_not_disturb_those_who_are_in_the_middle(store: Store, backend: RedisBackend) -> None:
    over, failed = threading.Event(), list[BaseException]()

    def work(number: int) -> None:
        try:
            turn = 0
            while not over.is_set():
                turn += 1
                store.kv.set(f"k{number}", turn)
                assert store.kv.get(f"k{number}") == turn
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        backend.close()
        time.sleep(0.002)
    over.set()
    for thread in threads:
        thread.join(60)
    assert failed == []


def test_a_cancellation_is_never_swallowed(store: Store) -> None:
    """Wherever it arrives: a call that went on instead would wait here for a lock that nobody gives back."""
    assert store.lock.acquire("k", ttl=600) is not None

    async def main(steps: int) -> None:
        async def waits() -> None:
            async with store.lock.hold("k", wait=30):
                pytest.fail("the body ran")

        task = asyncio.create_task(waits())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 20)

    for steps in range(100):
        asyncio.run(main(steps))


# -- threads and forks ------------------------------------------------------------------------------------------------


def test_threads_share_a_store(store: Store) -> None:
    def work(number: int) -> None:
        for each in range(25):
            store.list.append("l", [number, each])
            store.kv.set(f"k{number}", each)
            assert store.kv.get(f"k{number}") == each

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert store.list.length("l") == 200


def test_a_fork_makes_connections_of_its_own(store: Store) -> None:
    """Parent and child go on at once; with one connection for both they would read each other's answers."""

    def work(name: str) -> bool:
        for number in range(300):
            store.kv.set(name, [name, number])
            if store.kv.get(name) != [name, number]:
                return False
        return bool(async_to_sync(store.kv.aget)(name) == [name, 299])

    async_to_sync(store.kv.aset)("warm", 1)
    assert store.kv.get("warm") == 1
    child = os.fork()
    if not child:
        try:
            os._exit(0 if work("child") else 1)
        finally:
            os._exit(2)
    try:
        assert work("parent")
    finally:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0
    assert store.kv.get("warm") == 1


# -- where the server is ----------------------------------------------------------------------------------------------


def caches(url: str, **more: Any) -> dict[str, Any]:
    return {"state": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url, **more}}


def test_a_cache_alias_lends_its_address_its_prefix_and_its_settings(url: str, raw: redis.Redis, prefix: str) -> None:
    pool = {"client_name": prefix, "max_connections": 3, "retry_on_timeout": True}
    with override_settings(
        CACHES=caches(f"{url},redis://replica", KEY_PREFIX=prefix, OPTIONS={"CONNECTION_POOL_KWARGS": pool})
    ):
        store = RedisBackend(cache="state").store()
    store.kv.set("k", 1, ttl=60)
    assert store.kv.get("k") == 1
    assert clients(raw, prefix) == 1
    (name,) = raw.scan_iter(match=f"{prefix}*")
    assert name.startswith(f"{prefix}:statestore:kv:".encode())
    assert asyncio.run(store.kv.aget("k")) == 1
    backend: Any = store.backend
    backend.close()


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("how", ["url", "cache"])
def test_retries_that_the_settings_ask_for_do_not_repeat_a_write(
    store: Store, proxy: Proxy, prefix: str, how: str, asynchronous: bool
) -> None:
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    if how == "url":
        backend = RedisBackend(location=f"{proxy.url}?retry_on_timeout=yes&retry_on_error=x", prefix=prefix)
    else:
        pool = {"retry": Retry(NoBackoff(), 5), "retry_on_timeout": True, "retry_on_error": [ConnectionError]}
        with override_settings(CACHES=caches(proxy.url, OPTIONS={"CONNECTION_POOL_KWARGS": pool})):
            backend = RedisBackend(cache="state", prefix=prefix)
    lossy = backend.store().at(store.names)

    async def aappend() -> None:
        await lossy.kv.aget("warm")
        proxy.lose.append("answer")
        await lossy.list.aappend("l", 1)

    def append() -> None:
        lossy.kv.get("warm")
        proxy.lose.append("answer")
        lossy.list.append("l", 1)

    with pytest.raises(OutcomeUnknown):
        asyncio.run(aappend()) if asynchronous else append()
    assert store.list.length("l") == 1
    backend.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, r"give either STATESTORES\['s'\]\['OPTIONS'\]\['cache'\] or STATESTORES\['s'\].*\['location'\]"),
        ({"cache": "state", "location": "redis://x"}, "give either"),
        ({"cache": "none"}, r"\['cache'\] names 'none', which CACHES does not define"),
        ({"cache": "local"}, r"\['cache'\] names 'local', which is no django-redis cache"),
        ({"cache": "sentinel"}, r"CACHES\['sentinel'\]\['OPTIONS'\]\['CLIENT_CLASS'\] is not for state"),
        ({"cache": "unknown"}, r"CACHES\['unknown'\].* has an option that redis-py does not know: .*'colour'"),
        ({"cache": "nowhere"}, r"CACHES\['nowhere'\]\['LOCATION'\] must be a URL"),
        ({"location": "http://x"}, r"\['location'\] must be a URL: redis://, rediss:// or unix://"),
        ({"location": "redis://:secret@x?db=y"}, r"\['location'\] must be a URL"),
        ({"location": 7}, r"\['location'\] must be a URL"),
        ({"location": "redis://x", "prefix": ""}, r"\['prefix'\] must be text"),
        ({"location": "redis://x", "prefix": "a{}b"}, r"\['prefix'\] must be text"),
        ({"location": "redis://x", "namespace": ""}, r"\['namespace'\]"),
        ({"location": "redis://x", "colour": 1}, r"\['colour'\] is unknown; known are .*cache.*location.*prefix"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_options_are_named_by_their_path(options: dict[str, Any], told: str) -> None:
    from django_statestore.handler import StoreHandler

    configured = {"s": {"BACKEND": "django_statestore.backends.redis.RedisBackend", "OPTIONS": options}}
    aliases = {
        "local": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        "sentinel": {**caches("redis://x")["state"], "OPTIONS": {"CLIENT_CLASS": "django_redis.client.SentinelClient"}},
        "unknown": {**caches("redis://x")["state"], "OPTIONS": {"CONNECTION_POOL_KWARGS": {"colour": 1}}},
        "nowhere": {"BACKEND": "django_redis.cache.RedisCache"},
    }
    with override_settings(STATESTORES=configured, CACHES=caches("redis://x") | aliases):
        with pytest.raises(StoreMisconfigured, match=told) as caught:
            StoreHandler()["s"]
        assert "secret" not in str(caught.value)


def test_nothing_shows_the_password(prefix: str) -> None:
    backend: Any = RedisBackend(location="redis://user:secret@127.0.0.1:1/0", prefix=prefix)
    with pytest.raises(Exception, match="cannot be reached") as caught:
        backend.store().kv.set("k", 1)
    shown = [repr(backend.location), repr(backend.store()), str(caught.value), str(caught.value.__cause__)]
    assert not any("secret" in each for each in shown)


def test_making_a_store_opens_nothing() -> None:
    backend = RedisBackend(location="redis://127.0.0.1:1")
    assert backend.store().kv is not None
    backend.close()


# -- the package redis ------------------------------------------------------------------------------------------------


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_the_package_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["redis"] = None
from django.conf import settings
settings.configure(STATESTORES={"fast": {"BACKEND": "django_statestore.backends.redis.RedisBackend",
                                         "OPTIONS": {"location": "redis://x"}}})
from django_statestore import stores
from django_statestore.exceptions import StoreMisconfigured
try:
    stores["fast"]
except StoreMisconfigured as error:
    print(error)
try:
    import django_statestore.backends.redis
except StoreMisconfigured as error:
    print(error)
"""
    by_settings, by_import = python(code).splitlines()
    assert by_settings.startswith("STATESTORES['fast']['BACKEND'] cannot be imported: ")
    for line in (by_settings, by_import):
        assert "install django-statestore[redis]" in line


def test_importing_the_package_imports_no_redis() -> None:
    assert python("import sys, django_statestore; print('redis' in sys.modules)").strip() == "False"
