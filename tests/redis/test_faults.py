"""What a server that cannot, or may not, does to a caller: our errors, which tell the remedy, and nothing half done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from django_statestore import Store
from django_statestore.backends.redis import RedisBackend
from django_statestore.backends.redis.node import Node
from django_statestore.exceptions import (
    OutcomeUnknown,
    PayloadInvalid,
    StateStoreError,
    StoreMisconfigured,
    StoreUnavailable,
)
from django_statestore.flow import Flow
from tests.calling import Call
from tests.servers import valkey

from .operations import READS, WRITES, prepared
from .proxy import Proxy

SECRET = "a secret value"


@contextmanager
def server(*options: str) -> Iterator[tuple[Store, Any]]:
    """Run a server with these options; give a store on it, and a client."""
    try:
        valkey.find_binary()
    except valkey.Unavailable as reason:
        pytest.skip(str(reason))
    running = valkey.Server(*options)
    backend = RedisBackend(location=running.url)
    try:
        with redis.Redis.from_url(running.url) as client:
            yield backend.store(), client
    finally:
        backend.close()
        running.stop()


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    return Call(asynchronous=request.param)


def errors_of_all(store: Store, call: Call, made: dict[str, Any], operations: dict[str, Any]) -> dict[str, Any]:
    errors: dict[str, Any] = {}
    for name, operation in operations.items():
        method, *arguments = operation(store, made)
        try:
            call(method, *arguments)
        except StateStoreError as error:
            errors[name] = error
    return errors


def test_a_server_that_is_not_there(call: Call) -> None:
    store = RedisBackend(location="unix:///nowhere/at-all.sock").store()
    made = {"lock": "t", "claims": ["t", "t"], "items": ["t", "t"]}
    errors = errors_of_all(store, call, made, READS | WRITES)
    assert set(errors) == set(READS | WRITES)
    assert {type(error) for error in errors.values()} == {StoreUnavailable}
    assert "cannot be reached" in str(errors["kv.get"])
    for listing in (store.kv.size, store.kv.scan, store.kv.clear, store.queue.size, store.handoff.clear):
        with pytest.raises(StoreUnavailable):
            call(listing)


def test_a_full_server_refuses_writes_and_none_is_half_done(call: Call) -> None:
    with server("--appendonly", "no", "--maxmemory-policy", "noeviction") as (store, raw):
        made = prepared(store)
        for number in range(4):
            store.list.append("l", number)
        raw.config_set("maxmemory", 1)
        stored = {key: raw.dump(key) for key in raw.scan_iter()}
        grows = {"kv.set", "kv.add", "list.append", "list.append with limits", "lock.acquire", "dedup.seen",
                 "dedup.claim", "queue.enqueue", "handoff.set", "handoff.issue"}  # fmt: skip
        errors = errors_of_all(store, call, made, {name: WRITES[name] for name in grows})
        assert set(errors) == grows
        assert {type(error) for error in errors.values()} == {StoreUnavailable}
        assert "OOM" in str(errors["kv.set"])
        assert "raise maxmemory" in str(errors["kv.set"])
        assert {key: raw.dump(key) for key in raw.scan_iter()} == stored
        assert errors_of_all(store, call, made, READS) == {}
        assert call(store.kv.delete, "k") is True  # makes room


def test_a_replica_refuses_writes(call: Call) -> None:
    with server() as (store, raw):
        made = prepared(store)
        raw.execute_command("REPLICAOF", "127.0.0.1", "1")
        errors = errors_of_all(store, call, made, {name: WRITES[name] for name in ("kv.set", "lock.acquire")})
        assert [type(error) for error in errors.values()] == [StoreUnavailable] * 2
        assert "it is a replica" in str(errors["kv.set"])
        raw.execute_command("REPLICAOF", "NO", "ONE")
        assert errors_of_all(store, call, made, WRITES) == {}


def test_a_replica_that_lost_its_primary_gives_no_misses(call: Call) -> None:
    with server("--replica-serve-stale-data", "no") as (store, raw):
        made = prepared(store)
        raw.execute_command("REPLICAOF", "127.0.0.1", "1")
        errors = errors_of_all(store, call, made, READS)
        assert set(errors) == set(READS)
        assert {type(error) for error in errors.values()} == {StoreUnavailable}


def test_too_few_replicas(call: Call) -> None:
    with server("--min-replicas-to-write", "1") as (store, _):
        with pytest.raises(StoreUnavailable, match="min-replicas-to-write"):
            call(store.kv.set, "k", SECRET)
        with pytest.raises(StoreUnavailable, match="min-replicas-to-write"):
            call(store.lock.acquire, "k")


def test_a_password_that_is_missing_or_wrong(call: Call) -> None:
    with server("--requirepass", "pass/word") as (store, _):
        with pytest.raises(StoreMisconfigured, match=r"NOAUTH.*asks for a password"):
            call(store.kv.get, "k")
        path = store.backend.location.url  # type: ignore[attr-defined]
        wrong, right = (RedisBackend(location=f"{path}?password={each}") for each in ("wrong", "pass%2Fword"))
        try:
            with pytest.raises(StoreMisconfigured, match="WRONGPASS") as caught:
                call(wrong.store().kv.set, "k", SECRET)
            assert "wrong" not in str(caught.value)
            assert call(right.store().kv.add, "k", 1) is True
        finally:
            wrong.close()
            right.close()


def test_a_user_who_may_not(call: Call) -> None:
    with server() as (store, raw):
        store.kv.set("k", 1)
        raw.execute_command("ACL", "SETUSER", "guest", "on", ">x", "~other:*", "+@all")
        guest = RedisBackend(location=store.backend.location.url + "?username=guest&password=x")  # type: ignore[attr-defined]
        try:
            with pytest.raises(StoreMisconfigured, match=r"NOPERM.*allow it the keys under our prefix"):
                call(guest.store().kv.get, "k")
            with pytest.raises(StoreMisconfigured, match="NOPERM"):
                call(guest.store().lock.acquire, "k")
        finally:
            guest.close()


def test_a_server_that_does_not_answer_in_time(call: Call) -> None:
    with server() as (store, raw):
        slow = RedisBackend(location=f"{store.backend.location.url}?socket_timeout=0.1")  # type: ignore[attr-defined]
        try:
            assert slow.store().kv.get("k") is None
            raw.execute_command("CLIENT", "PAUSE", 1000, "WRITE")
            with pytest.raises(OutcomeUnknown, match="Timeout"):
                call(slow.store().kv.set, "k", 1)
            raw.execute_command("CLIENT", "UNPAUSE")
            raw.execute_command("CLIENT", "PAUSE", 1000, "ALL")
            with pytest.raises(StoreUnavailable, match="Timeout"):
                call(slow.store().kv.get, "k")
        finally:
            slow.close()


def test_a_key_of_another_type_is_no_miss(store: Store, raw: redis.Redis, prefix: str, call: Call) -> None:
    store.kv.set("k", 1)
    (name,) = raw.scan_iter(match=f"{prefix}*")
    raw.delete(name)
    raw.rpush(name, SECRET)
    for operation in (store.kv.get, store.kv.consume):
        with pytest.raises(PayloadInvalid, match="was not written by this package") as caught:
            call(operation, "k")
        assert SECRET not in str(caught.value)


def test_a_command_that_the_server_does_not_know(call: Call) -> None:
    with server("--rename-command", "GETDEL", "") as (store, _):
        with pytest.raises(StoreMisconfigured, match=r"must be Redis 6\.2 or later") as caught:
            call(store.handoff.get_and_delete, "an id that nobody may see")
        assert "nobody may see" not in str(caught.value)


def test_an_error_of_the_server_shows_nothing_that_was_sent(raw: redis.Redis, url: str, call: Call) -> None:
    far_database = RedisBackend(location=f"{url}?db=9999").store()
    with pytest.raises(StateStoreError) as caught:
        call(far_database.kv.set, "k", SECRET)
    assert SECRET not in str(caught.value)


class Interrupted(RedisBackend):
    """Lose the server when a clear has done the first part of its work."""

    proxy: Proxy

    def keys_flow(self, part: str, namespace: str, prefix: str = "") -> Flow[dict[bytes, Node]]:
        if part == "dedup.claim":
            self.proxy.lose.extend(["request", "request"])
        return (yield from super().keys_flow(part, namespace, prefix))


def test_a_clear_that_is_cut_off_half_way_does_not_say_that_nothing_was_done(proxy: Proxy, prefix: str) -> None:
    backend = Interrupted(location=proxy.url, prefix=prefix)
    backend.proxy = proxy
    store = backend.store()
    store.dedup.seen("k", 60)
    with pytest.raises(OutcomeUnknown, match="others may be left"):
        store.dedup.clear()
    proxy.lose.clear()
    assert store.dedup.seen("k", 60) is False
    proxy.lose.clear()
    backend.close()
