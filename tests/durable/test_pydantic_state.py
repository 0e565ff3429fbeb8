"""A pydantic model as the state of a durable task is written as JSON and read back strictly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from django_statestore import codec
from django_statestore.durable import DurableTask, Repeat, StepContext
from django_statestore.durable.registry import unregister
from django_statestore.durable.states import StateType, state_type
from django_statestore.exceptions import InvalidDefinition, StateInvalid
from tests.durable.conftest import Bench
from tests.processes import ROOT

pytest.importorskip("pydantic")

from pydantic import AnyUrl, BaseModel, RootModel, SecretStr
from pydantic_core import TzInfo

from tests.durable.models import (
    Box,
    Cat,
    Checked,
    Colour,
    Dog,
    Doubling,
    Early,
    Hidden,
    Item,
    Later,
    Lax,
    Numbers,
    Order,
    Point,
    Special,
    Spot,
    Tree,
    Unresolved,
    Visit,
)  # fmt: skip

T = TypeVar("T")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ITEM = Item(sku="a", price=Decimal("1.10"))


def typed(declared: type[T], is_state: Callable[[Any], bool] | None = None) -> StateType[T]:
    return state_type(declared, is_state, where="DurableTask 'shop.refund'")


def through(state: T) -> T:
    kind = typed(type(state))
    return kind.load(codec.loads(codec.dumps(kind.dump(state))))


FULL = Order(
    id=2**70, items=[ITEM], by_name={"$t": ITEM}, by_number={1: ITEM}, first=ITEM, pair=(1, ITEM),
    row=(Colour.RED, Colour.BLUE), colour=Colour.BLUE, seen={Colour.BLUE, Colour.RED}, ids=frozenset({UUID(int=1)}),
    pet=Dog(tricks=["sit"]), value=[Decimal("1.50")], loose={"a": [1, None, 1.5]}, ratio=-0.0, raw=b"raw",
    at=NOON.astimezone(timezone(timedelta(hours=-3, minutes=-30))), moments={NOON}, log=[(NOON, "x")],
    visits=[Visit(NOON, "ann")], by_time={NOON: "noon"},
    clock=time(1, 2, 3, 4), delta=timedelta(days=-1, microseconds=1), url=AnyUrl("https://example.com/a"),
    spot=Spot(Point(1, 2), NOON),
).model_copy(update={"named": 4})  # fmt: skip


# -- unit -------------------------------------------------------------------------------------------------------------


def test_a_model_comes_back_equal_and_of_the_same_types() -> None:
    back = through(FULL)
    assert back == FULL
    assert repr(back) == repr(FULL)  # equality alone would take True for 1
    assert type(back.pet) is Dog
    assert type(back.spot) is Spot


def test_the_plain_value_is_the_json_of_the_fields_by_their_names() -> None:
    plain = typed(Order).dump(FULL)
    assert list(plain) == list(Order.model_fields)
    assert (plain["named"], plain["colour"], plain["pair"]) == (4, 2, [1, {"sku": "a", "price": "1.10", "n": 1}])
    assert plain["pet"] == {"kind": "dog", "tricks": ["sit"]}
    assert codec.loads(codec.dumps(plain)) == plain


def test_a_cached_property_is_no_part_of_the_state() -> None:
    state = Order(id=1)
    assert state.dear
    assert "dear" not in through(state).__dict__


def test_the_zone_of_a_time_that_was_read_is_one_that_the_codec_takes() -> None:
    """Pydantic reads times in a zone type of its own, which a later ``ctx.append`` would refuse."""
    back = through(FULL)
    assert type(Order.model_validate_json('{"id": 1, "at": "2026-01-01T00:00Z"}').at.tzinfo) is TzInfo
    assert back.spot is not None
    times = [back.at, *back.moments, back.log[0][0], back.spot.seen, back.visits[0].at, *back.by_time]
    assert {type(each.tzinfo) for each in times if each} == {timezone}
    assert codec.loads(codec.dumps(times)) == times


def test_a_time_that_pydantic_read_is_written_too() -> None:
    state = Order.model_validate_json('{"id": 1, "at": "2026-01-01T00:00+02:00"}')
    assert through(state).at == state.at
    assert through(state).at.utcoffset() == timedelta(hours=2)


def test_a_model_may_contain_itself() -> None:
    tree = Tree(name="root", parts=[Tree(name="a", parts=[Tree(name="b")])], parent=Tree(name="up"))
    assert through(tree) == tree
    tree.parts[0].parent = tree
    with pytest.raises(StateInvalid, match=r"^\$\.parts: has no form in JSON: pydantic raised Pydantic\w+ on it$"):
        typed(Tree).dump(tree)


def test_a_root_model_is_its_root() -> None:
    assert typed(Numbers).dump(Numbers([1, 2])) == [1, 2]
    assert through(Numbers([1, 2])) == Numbers([1, 2])
    with pytest.raises(StateInvalid, match=r"^\$\[1\]: pydantic refuses it with 'int_type'$"):
        typed(Numbers).load([1, "2"])


def test_a_generic_model_is_declared_with_its_types() -> None:
    state = Box[Item](content=ITEM)
    assert through(state) == state
    with pytest.raises(InvalidDefinition, match=r"Box is generic, .*: give it its types, as in Box\[int\]$"):
        typed(Box)


@pytest.mark.parametrize(
    ("cls", "problem"),
    [
        (BaseModel, "BaseModel itself has no fields: declare a class of your own"),
        (RootModel, "RootModel is generic, and would read"),
        (Unresolved, "the annotations of Unresolved cannot be resolved: name 'Unimported' is not defined"),
        (ITEM, "state must be a dataclass, a pydantic model, or None beside an is_state function"),
    ],
)
def test_what_cannot_be_a_state_is_refused_at_definition(cls: Any, problem: str) -> None:
    with pytest.raises(InvalidDefinition, match=rf"^DurableTask 'shop\.refund': {problem}"):
        typed(cls)


def test_an_annotation_may_name_a_class_that_comes_later_in_its_module() -> None:
    assert through(Early(later=Later(n=1))) == Early(later=Later(n=1))


def test_an_older_pydantic_is_refused_at_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_statestore.durable.pydantic_states.VERSION", "2.9.1")
    with pytest.raises(InvalidDefinition, match=r"needs pydantic 2\.12 or later; this is 2\.9\.1$"):
        typed(Item)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": "1"}, r"\.id: pydantic refuses it with 'int_type'"),
        ({"id": True}, r"\.id: a bool would come back as int"),
        ({"ratio": 1}, r"\.ratio: a int would come back as float"),
        ({"ratio": float("nan")}, r"\.ratio: pydantic refuses it with 'float_type'"),
        ({"items": (ITEM,)}, r"\.items: a tuple would come back as list"),
        ({"items": [ITEM, ITEM.model_copy(update={"n": -1})]}, r"\.items\[1\]\.n: pydantic refuses it with 'greater_"),
        ({"by_name": {"a b": None}}, r'\.by_name\["a b"\]: pydantic refuses it with \'model_type\''),
        ({"by_number": {1: ITEM.model_copy(update={"n": True})}}, r"\.by_number\[1\]\.n: a bool would come"),
        ({"by_number": {"1": ITEM}}, r"\.by_number: the keys of a dict would not come back equal"),
        ({"pair": (1, ITEM, 3)}, r"\.pair: pydantic refuses it with 'too_long'"),
        ({"row": ("red",)}, r"\.row\[0\]: a str would come back as Colour"),
        ({"seen": {"red", Colour.RED}}, r"\.seen: a set would not come back equal"),
        ({"loose": (1,)}, r"\.loose: a tuple would come back as list"),
        ({"loose": {"at": [NOON]}}, r"\.loose\.at\[0\]: a datetime would come back as str"),
        ({"loose": object()}, r"\.loose: a object would come back as NoneType"),
        ({"loose": {1: 2}}, r"\.loose: the keys of a dict would not come back equal"),
        ({"loose": "\ud800"}, r"\.loose: has no form in JSON: pydantic raised PydanticSerializationError on it"),
        ({"raw": b"\xff"}, r"\.raw: has no form in JSON: pydantic raised PydanticSerializationError on it"),
        ({"first": Lax()}, r"\.first: pydantic refuses it|\.first\.\w+: "),
        ({"pet": Special()}, r"\.pet: a Special would come back as Cat"),
        ({"at": NOON.astimezone(ZoneInfo("Europe/Berlin"))}, r"\.at: a datetime in a zone of type ZoneInfo would"),
        ({"at": NOON.replace(tzinfo=None, fold=1)}, r"\.at: a datetime would not come back equal"),
        ({"spot": Spot(Point(1, True))}, r"\.spot\.at\[1\]: a bool would come back as int"),
        ({"value": [Decimal("NaN")]}, r"\.value\S*: pydantic refuses it"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_would_not_come_back_is_not_written(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(StateInvalid, match=rf"^\$({problem})"):
        typed(Order).dump(FULL.model_copy(update=changes))


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (Lax(name="x"), r"\.name: a str would not come back equal"),
        (Lax(more=1), r"\.more: there is no such field"),  # type: ignore[call-arg]
        (Lax(secret=SecretStr("hunter2")), r"\.secret: a SecretStr would not come back equal"),
        (Lax(inner=Order(id=1).model_copy(update={"id": None})), r"\.inner\.id: pydantic refuses it with 'int_type'"),
        (Lax(thing=ValueError("hunter2")), r"\.thing: a ValueError would come back as NoneType"),
        (Lax(base=Special(more=1)), r"\.base: a Special would come back as Cat"),
        (Lax(as_it_is=Special(more=1)), r"\.as_it_is\.more: there is no such field"),
        (Lax(inner=Order(id=1, raw=b"\xff")), r"\.inner\.raw: has no form in JSON: pydantic raised"),
        (Doubling(n=1), r"\.n: a int would not come back equal"),
        (Item.model_construct(sku="a"), r"\.price: is missing, and has no default"),
    ],
    ids=str,
)  # fmt: skip
def test_a_model_that_loses_something_on_its_way_is_not_written(state: Any, problem: str) -> None:
    with pytest.raises(StateInvalid, match=rf"^\${problem}") as refused:
        typed(type(state)).dump(state)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


def test_a_field_that_was_deleted_would_come_back() -> None:
    state = Cat()
    del state.lives
    with pytest.raises(StateInvalid, match=r"^\$\.lives: is not there, and would come back$"):
        typed(Cat).dump(state)


def test_what_a_model_allows_comes_through() -> None:
    for state in (Lax(), Lax(point=Point(1, 2), colour=Colour.BLUE, base=Cat(lives=1), as_it_is=Cat())):
        assert through(state) == state
        assert repr(through(state)) == repr(state)


def test_private_attributes_are_not_kept_and_must_be_as_new() -> None:
    state = Hidden(name="a")
    assert through(state) == state
    state._cache["a"] = 1
    with pytest.raises(StateInvalid, match=r"^\$\._cache: is a private attribute, which is not kept: make it a field"):
        typed(Hidden).dump(state)
    state._cache.clear()
    state._client = int
    with pytest.raises(StateInvalid, match=r"^\$\._client: is a private attribute"):
        typed(Hidden).dump(state)


def test_only_the_class_itself_is_its_state() -> None:
    for state in (Special(), {"kind": "cat"}, None, Cat):
        with pytest.raises(StateInvalid, match=r"^\$: expected Cat, got (Special|dict|NoneType|ModelMetaclass)$"):
            typed(Cat).dump(state)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        (None, r": pydantic refuses it with 'model_type'"),
        ([], r": pydantic refuses it with 'model_type'"),
        ({}, r"\.id: is missing, and has no default"),
        ({"id": "1"}, r"\.id: pydantic refuses it with 'int_type'"),
        ({"id": 1, "colour_": 1}, r"\.colour_: there is no such field"),
        ({"id": 1, "count": 0}, r"\.count: there is no such field"),
        ({"id": 1, "otherName": 0}, r"\.otherName: there is no such field"),
        ({"id": 1, "items": [{"sku": "a"}]}, r"\.items\[0\]\.price: is missing, and has no default"),
        ({"id": 1, "items": [{"sku": "a", "price": "1", "x": 1}]}, r"\.items\[0\]\.x: there is no such field"),
        ({"id": 1, "colour": "hunter2"}, r"\.colour: pydantic refuses it with 'enum'"),
        ({"id": 1, "pet": {"kind": "hunter2"}}, r"\.pet: pydantic refuses it with 'union_tag_invalid'"),
        ({"id": 1, "pet": {"kind": "dog", "tricks": [1]}}, r"\.pet\.tricks\[0\]: pydantic refuses it with 'string_"),
        ({"id": 1, "pair": [1]}, r"\.pair\[1\]: is missing, and has no default"),
        ({"id": 1, "at": "hunter2"}, r"\.at: pydantic refuses it with 'datetime_parsing'"),
        ({"id": 1, "at": NOON}, r": is no plain JSON: json\.dumps raised TypeError on it"),
        ({"id": 1, "loose": "\ud800"}, r": pydantic refuses it with 'json_invalid'"),
    ],
    ids=str,
)  # fmt: skip
def test_a_plain_value_of_another_form_is_not_read(plain: Any, problem: str) -> None:
    with pytest.raises(StateInvalid, match=rf"^\${problem}") as refused:
        typed(Order).load(plain)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None  # pydantic's own error shows values


def test_a_field_with_a_default_may_be_missing() -> None:
    one, two = typed(Order).load({"id": 1}), typed(Order).load({"id": 1})
    assert one == Order(id=1)
    assert one.seen is not two.seen


def test_a_model_may_refuse_its_members() -> None:
    with pytest.raises(StateInvalid, match=r"^\$\.n: a validator raised ValueError on it$") as refused:
        typed(Checked).load({"n": -1})
    assert isinstance(refused.value.__cause__, ValueError)
    with pytest.raises(StateInvalid, match=r"^\$: Checked raised KeyError on its members$") as refused:
        typed(Checked).load({"n": 13})
    assert isinstance(refused.value.__cause__, KeyError)


def test_is_state_has_the_last_word() -> None:
    kind = typed(Checked, lambda state: state.n == 1)
    assert kind.load(kind.dump(Checked(n=1))) == Checked(n=1)
    operations: list[tuple[Any, Any]] = [(kind.dump, Checked(n=2)), (kind.load, {"n": 2})]
    for operation, value in operations:
        with pytest.raises(StateInvalid, match=r"^\$: is_state did not answer True to it$"):
            operation(value)


def test_what_nests_too_deep_is_told() -> None:
    plain: dict[str, Any] = {"name": "leaf"}
    for _ in range(5000):
        plain = {"name": "part", "parent": plain}
    with pytest.raises(StateInvalid, match=r"^\$: (nests too deep, or contains itself|pydantic refuses it)"):
        typed(Tree).load(plain)


def test_pydantic_is_not_imported_for_other_states() -> None:
    code = (
        "import sys, dataclasses; from django_statestore.durable.states import state_type\n"
        "cls = dataclasses.make_dataclass('State', [('n', int)])\n"
        "state_type(cls, None, where='x').dump(cls(1)); state_type(None, callable, where='x')\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] in ('pydantic', 'pydantic_core')]\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


# -- tasks ------------------------------------------------------------------------------------------------------------


def walking(bench: Bench, **options: Any) -> Any:
    task: DurableTask[Any] = bench.define(**{"state": Order, **options})

    @task.step(replay="safe")
    def look(state: Order, ctx: StepContext) -> Order | Repeat[Order]:
        state = state.model_copy(update={"items": [*state.items, ITEM], "at": NOON})
        return Repeat(state) if ctx.turn < 2 else state

    @task.step(replay="safe")
    def end(state: Order, ctx: StepContext) -> Order:
        assert isinstance(state, Order)
        return state.model_copy(update={"pet": Cat(lives=len(state.items))})

    return task


def start(bench: Bench, task: Any, state: Order) -> Any:
    return bench.call(task.start, state, task_id="t", namespace=bench.names)


def test_a_task_keeps_a_model_from_step_to_step(bench: Bench) -> None:
    task = walking(bench)
    assert start(bench, task, Order(id=1)).state == Order(id=1)
    bench.one_step(task)
    bench.one_step(task)
    read: Any = bench.get(task).state
    assert read == Order(id=1, items=[ITEM, ITEM], at=NOON)
    done = bench.run(task)
    state: Any = done.state
    assert done.status == "completed"
    assert state == Order(id=1, items=[ITEM, ITEM], at=NOON, pet=Cat(lives=2))
    assert start(bench, task, Order(id=1)).status == "completed"  # the same initial state is the same task


def test_a_step_whose_model_would_not_come_back_has_raised(bench: Bench) -> None:
    task: DurableTask[Any] = bench.define(state=Order)

    @task.step(replay="safe")
    def odd(state: Order, ctx: StepContext) -> Order:
        return state.model_copy(update={"loose": {1, 2}})

    start(bench, task, Order(id=1))
    with pytest.raises(StateInvalid, match=r"^\$\.loose: a set would come back as list$"):
        bench.run(task)
    record = bench.record()
    assert (record.status, record.attempts, record.save_seq) == ("running", 1, 0)
    assert "would come back as list" in record.last_error


def test_a_task_whose_state_no_longer_validates_is_left_to_other_code(bench: Bench) -> None:
    task = walking(bench)
    start(bench, task, Order(id=1))
    unregister(task)
    narrow = walking(bench, id=task.id, state=Checked)
    with pytest.raises(StateInvalid, match=r"^\$\.\w+: (is missing, and has no default|there is no such field)$"):
        bench.run(narrow)
    assert bench.record().save_seq == 0
