"""durable: what is stored, for how long, and in how many round trips."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import redis

from django_statestore import Store, flow, stores
from django_statestore.backends.redis import RedisBackend
from django_statestore.contracts.checkpoint import Checkpoint
from django_statestore.contracts.tokens import token_digest
from django_statestore.durable import DurableTask
from django_statestore.durable.registry import unregister
from django_statestore.exceptions import LeaseLost, NotSupported, PayloadInvalid, StoreUnavailable
from django_statestore.testing import age

from .proxy import Proxy
from .test_faults import server
from .turns import count_turns

DAY = 86_400_000
START = Checkpoint(
    definition_id="count", revision="1", next_step_index=0, attempt_count=0, max_attempts=3,
    deadline_at_ms=1_900_000_000_123, status="ready", state={"count": 0},
)  # fmt: skip


@pytest.fixture
def client(raw: redis.Redis) -> Any:
    return raw


def only_key(client: Any, prefix: str) -> bytes:
    (name,) = client.scan_iter(match=f"{prefix}*")
    return bytes(name)


def test_an_id_is_one_key_that_expires_a_day_after_its_lease_unless_it_was_saved(
    store: Store, client: Any, prefix: str
) -> None:
    claim = store.durable.claim("t", lease=60)
    assert claim is not None
    name = only_key(client, prefix)
    assert DAY < client.pttl(name) <= DAY + 60_000
    assert store.durable.renew("t", claim.token, lease=600)
    assert DAY + 60_000 < client.pttl(name) <= DAY + 600_000
    store.durable.release("t", claim.token)
    assert DAY - 60_000 < client.pttl(name) <= DAY

    claim = store.durable.claim("t", lease=60)
    assert claim is not None
    store.durable.commit("t", claim.token, START)
    assert client.pttl(name) == -1
    assert store.durable.renew("t", claim.token)
    store.durable.release("t", claim.token)
    assert store.durable.claim("t") is not None
    assert client.pttl(name) == -1
    assert only_key(client, prefix) == name


def test_a_save_makes_an_id_that_was_only_claimed_last(store: Store, client: Any, prefix: str) -> None:
    with store.durable.exclusive("t"):
        pass
    assert client.pttl(only_key(client, prefix)) > 0
    store.durable.save("t", START)
    assert client.pttl(only_key(client, prefix)) == -1


def test_fences_rise_over_release_expiry_and_a_lost_key(store: Store, client: Any, prefix: str) -> None:
    fences = []
    for end in ("release", "expire", "forget", "ahead", "end"):
        claim = store.durable.claim("t", lease=60)
        assert claim is not None
        assert claim.fence < 2**53
        fences.append(claim.fence)
        if end == "release":
            store.durable.release("t", claim.token)
        elif end == "expire":
            age(store, 61)
        elif end == "forget":
            client.delete(only_key(client, prefix))
        elif end == "ahead":  # the clock was turned back
            client.hset(only_key(client, prefix), "fence", claim.fence + 10**12)
            fences.append(claim.fence + 10**12)
            store.durable.release("t", claim.token)
    assert fences == sorted(set(fences))


def test_a_repeated_claim_recognises_its_own_lease(store: Store) -> None:
    def claim(token: str) -> Any:
        return flow.run(store.durable.claim_as_flow("t", 60, token))

    first = claim("a token")
    assert claim("another") is None
    assert claim("a token").fence == first.fence
    age(store, 61)
    assert claim("a token").fence > first.fence
    age(store, 61)
    assert claim("another").fence > first.fence
    with pytest.raises(LeaseLost):
        store.durable.commit("t", "a token", START)


def test_tokens_are_kept_as_digests(store: Store, client: Any, prefix: str) -> None:
    claim = store.durable.claim("t")
    assert claim is not None
    stored = client.hgetall(only_key(client, prefix))
    assert claim.token.encode() not in b"".join([*stored, *stored.values()])


def test_a_state_is_opaque_to_the_server(store: Store) -> None:
    states = ["x" * 1_000_000, {"a": "\0\ud800", "n": 2**80, "big": [1.5, None]}, "{}", "", None]
    for state in states:
        store.durable.save("t", replace(START, state=state))
        assert store.durable.load("t") == replace(START, state=state)


def test_what_is_no_checkpoint_is_told(store: Store, client: Any, prefix: str) -> None:
    store.durable.save("t", START)
    for document in ("nonsense", "{}", "[]"):
        client.hset(only_key(client, prefix), "checkpoint", document)
        with pytest.raises(PayloadInvalid, match="was not written by this package"):
            store.durable.load("t")


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_round_trips(store: Store, far: Store, proxy: Proxy, asynchronous: bool) -> None:
    for name in ("once before", "t"):
        store.durable.save(name, START)
    claim, other = store.durable.claim("once before"), store.durable.claim("t")
    assert claim is not None
    assert other is not None
    store.durable.commit("once before", claim.token, START)
    store.durable.renew("once before", claim.token)
    store.durable.release("once before", claim.token)
    operations: list[tuple[str, tuple[Any, ...], int]] = [
        ("load", ("t",), 1),
        ("commit", ("t", other.token, START), 1),
        ("renew", ("t", other.token), 1),
        ("release", ("t", other.token), 1),
        ("save", ("t", START), 1),
        ("claim", ("t",), 2),  # and the checkpoint is loaded under the lease
    ]
    counted = count_turns(proxy, far, [(far.durable, *each[:2]) for each in operations], asynchronous)
    assert counted == [expected for *_, expected in operations]


def test_many_leases_are_renewed_in_one_round_trip(store: Store, far: Store, proxy: Proxy) -> None:
    backend: Any = far.backend
    held = []
    for number in range(20):
        claim = store.durable.claim(f"t{number}")
        assert claim is not None
        held.append((store.durable.entry(f"t{number}"), token_digest(claim.token), 60_000))
    held.append((store.durable.entry("nobody's"), b"no token", 60_000))
    backend.durable_renew(held).run()
    before = proxy.turns
    assert backend.durable_renew(held).run() == [True] * 20 + [False]
    assert proxy.turns - before == 1


@pytest.mark.usefixtures("url")
def test_the_engine_is_refused() -> None:
    assert isinstance(stores["redis"].backend, RedisBackend)
    task: DurableTask[Any] = DurableTask(
        "tests.on_redis", revision="1", is_state=lambda state: True, deadline=60, store="redis"
    )
    operations: list[tuple[Any, Any]] = [(task.start, 1), (task.get, "t"), (task.run, "t")]
    try:
        task.step(replay="safe")(lambda state, ctx: state)
        for method, argument in operations:
            with pytest.raises(NotSupported, match=r"'redis' \(RedisBackend\) cannot run durable tasks: use one"):
                method(argument)
    finally:
        unregister(task)


def test_a_full_server_writes_nothing_but_renews_and_gives_back() -> None:
    with server("--appendonly", "no", "--maxmemory-policy", "noeviction") as (store, raw):
        claims = [store.durable.claim(id) for id in ("t", "u")]
        assert all(claims)
        tokens = {claim.id: claim.token for claim in claims if claim}
        store.durable.commit("t", tokens["t"], START)
        store.durable.save("free", START)
        age(store, 50)
        raw.config_set("maxmemory", 1)
        later = replace(START, attempt_count=1)
        writes: list[tuple[Any, tuple[Any, ...]]] = [
            (store.durable.commit, ("t", tokens["t"], later)),
            (store.durable.save, ("free", later)),
            (store.durable.claim, ("free",)),
            (store.durable.claim, ("new",)),
        ]
        for method, arguments in writes:
            with pytest.raises(StoreUnavailable, match="its memory is full"):
                method(*arguments)
        assert store.durable.load("t") == START
        assert store.durable.load("free") == START
        for id, token in tokens.items():
            assert store.durable.renew(id, token, lease=60)
        assert store.durable.release("u", tokens["u"])
        raw.config_set("maxmemory", 0)
        age(store, 50)
        assert store.durable.claim("t") is None  # it lives by the renewal
        assert store.durable.claim("u") is not None
