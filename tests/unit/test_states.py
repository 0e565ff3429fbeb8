"""The state of a durable task is written and read strictly by its declared type."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar
from uuid import UUID

import pytest
from django.db import models
from hypothesis import given
from hypothesis import strategies as st

from django_statestore import codec
from django_statestore.durable.states import StateType, state_type
from django_statestore.exceptions import InvalidDefinition, StateInvalid, ValueNotSerializable

from .values import same

if TYPE_CHECKING:
    from nowhere import Unimported  # type: ignore[import-not-found]

T = TypeVar("T")
UserId = NewType("UserId", int)


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Priority(models.TextChoices):
    LOW = "low", "Low"
    HIGH = "high", "High"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Money(enum.Enum):
    EUR = ("EUR", 2)


@dataclass(frozen=True, slots=True)
class Item:
    sku: str
    price: Decimal
    n: int = 1


@dataclass
class Order:
    _: KW_ONLY
    id: int
    items: list[Item]
    by_name: dict[str, Item]
    first: Item | None = None
    second: Optional[Item] = None  # noqa: UP045
    pair: tuple[int, Item] = (0, Item("x", Decimal(0)))
    row: tuple[Colour, ...] = ()
    nothing: tuple[()] = ()
    colour: Colour = Colour.RED
    priority: Priority = Priority.LOW
    rights: Rights = Rights.READ | Rights.WRITE
    seen: set[Colour] = field(default_factory=set)
    ids: frozenset[UUID] = frozenset()
    user: UserId = UserId(0)
    mode: Literal["fast", 1, None] = None
    value: int | str | list[Decimal] | None = None
    loose: Any = None
    bare: list = field(default_factory=list)  # type: ignore[type-arg]
    flag: bool = False
    ratio: float = 0.0
    raw: bytes = b""
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    day: date = date(2026, 1, 1)
    clock: time = time(0)
    delta: timedelta = timedelta(0)
    void: None = None
    limit: ClassVar[int] = 5


@dataclass
class Tree:
    name: str
    parts: list[Tree] = field(default_factory=list)
    parent: Tree | None = None


def typed(declared: type[T]) -> StateType[T]:
    return state_type(declared, None, where="DurableTask 'shop.refund'")


def through(kind: StateType[T], state: T) -> T:
    return kind.load(codec.loads(codec.dumps(kind.dump(state))))


items = st.builds(Item, st.text(), st.decimals(allow_nan=False), st.integers())
colours = st.sampled_from(Colour)
orders = st.builds(
    Order,
    id=st.integers(),
    items=st.lists(items, max_size=3),
    by_name=st.dictionaries(st.text() | st.just("$t"), items, max_size=3),
    first=st.none() | items,
    pair=st.tuples(st.integers(), items),
    row=st.lists(colours, max_size=3).map(tuple),
    colour=colours,
    priority=st.sampled_from(Priority),
    rights=st.integers(0, 3).map(Rights),
    seen=st.sets(colours),
    ids=st.frozensets(st.uuids(), max_size=3),
    mode=st.sampled_from(["fast", 1, None]),
    value=st.none() | st.integers() | st.text() | st.lists(st.decimals(allow_nan=False), max_size=2),
    loose=st.none() | st.sets(st.integers(), max_size=2) | st.tuples(st.text()),
    at=st.datetimes(timezones=st.timezones()),
)
order_type = typed(Order)


@given(orders)
def test_a_dataclass_comes_back_equal_and_of_the_same_types(order: Order) -> None:
    back = through(order_type, order)
    assert back == order
    assert same(back, order)  # equality alone would take True for 1


def test_the_plain_value_is_a_dict_of_the_fields() -> None:
    first = Tree("a", [Tree("b")])
    assert typed(Tree).dump(first) == {
        "name": "a",
        "parts": [{"name": "b", "parts": [], "parent": None}],
        "parent": None,
    }
    plain = order_type.dump(Order(id=1, items=[], by_name={}, row=(Colour.BLUE,), seen={Colour.RED}))
    assert (plain["row"], plain["seen"], plain["colour"], plain["rights"]) == ([2], {"red"}, "red", 3)
    assert list(plain) == [member.name for member in dataclasses.fields(Order)]


def test_a_tree_may_contain_itself() -> None:
    tree = Tree("root", [Tree("a", [Tree("b")]), Tree("c")], Tree("up"))
    kind = typed(Tree)
    assert through(kind, tree) == tree
    with pytest.raises(StateInvalid, match=r"^\$\.parts\[0\]\.parts\[0\]\.name: expected str, got int$"):
        kind.dump(Tree("root", [Tree("a", [Tree(1)])]))  # type: ignore[arg-type]
    deep = Tree("leaf")
    for _ in range(60):
        deep = Tree("part", [deep])
    with pytest.raises(ValueNotSerializable, match="nests more than 100 deep"):
        codec.dumps(kind.dump(deep))
    tree.parts[0].parent = tree
    with pytest.raises(StateInvalid, match=r"^\$: nests too deep, or contains itself$"):
        kind.dump(tree)


def test_the_name_is_that_of_the_class() -> None:
    assert typed(Order).name == "Order"
    assert state_type(None, callable, where="x").name == "any value"


# -- strict both ways -------------------------------------------------------------------------------------------------

ORDER: dict[str, Any] = {"id": 1, "items": [], "by_name": {}}


@pytest.mark.parametrize(
    ("member", "value", "problem"),
    [
        ("id", "1", r"\.id: expected int, got str"),
        ("id", True, r"\.id: expected int, got bool"),
        ("id", 1.0, r"\.id: expected int, got float"),
        ("ratio", 1, r"\.ratio: expected float, got int"),
        ("flag", 0, r"\.flag: expected bool, got int"),
        ("day", datetime(2026, 1, 1, tzinfo=UTC), r"\.day: expected date, got datetime"),
        ("void", 0, r"\.void: expected None, got int"),
        ("items", (), r"\.items: expected list\[Item\], got tuple"),
        ("items", [Item("a", Decimal(1)), None], r"\.items\[1\]: expected Item, got NoneType"),
        ("items", [Item("a", 1)], r"\.items\[0\]\.price: expected Decimal, got int"),  # type: ignore[arg-type]
        ("by_name", {"a b": 1}, r'\.by_name\["a b"\]: expected Item, got int'),
        ("by_name", {1: 1}, r"\.by_name: expected keys of type str, got int"),
        ("first", {}, r"\.first: expected Item \| None, got dict"),
        ("pair", (1,), r"\.pair: expected tuple\[int, Item\], got 1 elements"),
        ("pair", (1, 2), r"\.pair\[1\]: expected Item, got int"),
        ("pair", [1, 2], r"\.pair: expected tuple\[int, Item\], got list"),
        ("row", (Colour.RED, "red"), r"\.row\[1\]: expected Colour, got str"),
        ("nothing", (1,), r"\.nothing: expected tuple\[\(\)\], got 1 elements"),
        ("colour", "red", r"\.colour: expected Colour, got str"),
        ("priority", "low", r"\.priority: expected Priority, got str"),
        ("seen", {1}, r"\.seen\{\}: expected Colour, got int"),
        ("mode", "slow", r"\.mode: expected Literal\['fast', 1, None\], got another str"),
        ("mode", True, r"\.mode: expected Literal\['fast', 1, None\], got bool"),
        ("value", 1.5, r"\.value: expected int \| str \| list\[Decimal\] \| None, got float"),
        ("value", [1], r"\.value\[0\]: expected Decimal, got int"),
    ],
)
def test_a_state_of_other_types_is_not_written(member: str, value: object, problem: str) -> None:
    with pytest.raises(StateInvalid, match=rf"^\${problem}$"):
        order_type.dump(Order(**{**ORDER, member: value}))


def test_only_the_class_itself_is_its_state() -> None:
    class Special(Order):
        pass

    for state in (Special(**ORDER), ORDER, None, Order):
        with pytest.raises(StateInvalid, match=r"^\$: expected Order, got (\S*Special|dict|NoneType|type)$"):
            order_type.dump(state)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        (None, r": expected Order, got NoneType"),
        ([], r": expected Order, got list"),
        ({**ORDER, "colour_": 1}, r"\.colour_: Order has no such field"),
        ({**ORDER, "limit": 5}, r"\.limit: Order has no such field"),
        ({"id": 1, "items": []}, r"\.by_name: is missing, and Order has no default for it"),
        ({**ORDER, "id": "1"}, r"\.id: expected int, got str"),
        ({**ORDER, "items": [{"sku": "a"}]}, r"\.items\[0\]\.price: is missing, and Item has no default for it"),
        ({**ORDER, "row": ("red",)}, r"\.row: expected tuple\[Colour, \.\.\.\], got tuple"),
        ({**ORDER, "row": ["green"]}, r"\.row\[0\]: expected Colour, got a str of no member"),
        ({**ORDER, "row": [2.0]}, r"\.row\[0\]: expected Colour, got float"),
        ({**ORDER, "rights": 8}, r"\.rights: expected Rights, got a int of no member"),
        ({**ORDER, "pair": [1]}, r"\.pair: expected tuple\[int, Item\], got 1 elements"),
        ({**ORDER, "seen": ["red"]}, r"\.seen: expected set\[Colour\], got list"),
        ({**ORDER, "mode": 2}, r"\.mode: expected Literal\['fast', 1, None\], got another int"),
    ],
)
def test_a_plain_value_of_another_form_is_not_read(plain: object, problem: str) -> None:
    with pytest.raises(StateInvalid, match=rf"^\${problem}$"):
        order_type.load(plain)


def test_a_field_with_a_default_may_be_missing() -> None:
    one, two = order_type.load(dict(ORDER)), order_type.load(dict(ORDER))
    assert one == Order(id=1, items=[], by_name={})
    assert one.seen is not two.seen


def test_no_value_is_in_an_error() -> None:
    with pytest.raises(StateInvalid) as refused:
        order_type.load({**ORDER, "colour": "hunter2"})
    assert "hunter2" not in str(refused.value)


@dataclass
class Checked:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n is below zero")


def test_a_class_may_refuse_its_members() -> None:
    with pytest.raises(StateInvalid, match=r"^\$: Checked raised ValueError on its members$") as refused:
        typed(Checked).load({"n": -1})
    assert isinstance(refused.value.__cause__, ValueError)


# -- is_state ---------------------------------------------------------------------------------------------------------


def fails(state: object) -> bool:
    raise KeyError(state)


@pytest.mark.parametrize(
    ("is_state", "problem"),
    [
        (fails, r"^\$: is_state raised KeyError on it$"),
        (lambda state: False, r"^\$: is_state did not answer True to it$"),
        (lambda state: None, r"^\$: is_state did not answer True to it$"),
        (lambda state: 1, r"^\$: is_state did not answer True to it$"),
    ],
)
def test_is_state_has_the_last_word(is_state: Callable[[Any], bool], problem: str) -> None:
    kinds: list[tuple[StateType[Any], Any, Any]] = [
        (state_type(Checked, is_state, where="x"), Checked(1), {"n": 1}),
        (state_type(None, is_state, where="x"), {"n": 1}, {"n": 1}),
    ]
    for kind, state, plain in kinds:
        with pytest.raises(StateInvalid, match=problem):
            kind.dump(state)
        with pytest.raises(StateInvalid, match=problem):
            kind.load(plain)


def test_is_state_sees_states_of_the_declared_type_only() -> None:
    kind: StateType[Any] = state_type(Checked, lambda state: state.n == 1, where="x")
    assert kind.load(kind.dump(Checked(1))) == Checked(1)
    with pytest.raises(StateInvalid, match="expected Checked, got dict"):
        kind.dump({"n": 1})


def test_without_a_type_any_value_is_a_state() -> None:
    kind: StateType[Any] = state_type(None, lambda state: isinstance(state, dict), where="x")
    assert through(kind, {"a": (1, {2})}) == {"a": (1, {2})}


# -- refused at definition --------------------------------------------------------------------------------------------


class Named(NamedTuple):
    x: int


class Typed(TypedDict):
    x: int


class Plain:
    pass


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Other:
    x: int


@pytest.mark.parametrize(
    "annotation",
    [
        Plain, Named, Typed, complex, Sequence[int], Mapping[str, int], Callable[[], int], type[int], T, Box[int],
        dict[int, str], dict[Any, str], set[Item], set[list[int]], frozenset[tuple[int, int]], list[Plain],
        Plain | None, Money, enum.Enum, Literal[Colour.RED], Item | Other, Item | dict[str, int], Colour | str,
        list[int] | tuple[int, ...], Literal["a"] | str, models.Model,
    ],
    ids=str,
)  # fmt: skip
def test_other_annotations_are_refused_at_definition(annotation: Any) -> None:
    odd = dataclasses.make_dataclass("Odd", [("member", annotation)])
    with pytest.raises(InvalidDefinition, match=r"^DurableTask 'shop\.refund': Odd\.member is annotated "):
        typed(odd)


@dataclass
class Outer:
    inner: list[Box[int]]
    box: Box[int]


@dataclass
class Unresolved:
    member: Unimported


@dataclass
class Initial:
    member: InitVar[int]


@dataclass
class Later:
    member: int = field(init=False, default=1)


@dataclass(init=False)
class Handmade:
    member: int


class Holder:
    @dataclass
    class Inner:
        member: Plain

    @dataclass
    class Outer:
        inner: list[Holder.Inner]


@pytest.mark.parametrize(
    ("cls", "problem"),
    [
        (Box, r"Box\.content is annotated ~T: it is none of the types"),
        (Outer, r"Outer\.inner is annotated list\[.*Box\[int\]\]: it is none"),
        (Holder.Outer, r"Holder\.Inner\.member is annotated Plain: it is none"),
        (Unresolved, r"the annotations of Unresolved cannot be resolved: name 'Unimported' is not defined"),
        (Initial, r"Initial\.member is an InitVar, which is not kept: make it a field"),
        (Later, r"Later\.member has init=False, so it cannot be read back: make it a property"),
        (Handmade, r"Handmade has init=False, but its generated __init__ is what reads a state back"),
        (dict, r"state must be a dataclass, a pydantic model, or None beside an is_state function"),
        (Item("a", Decimal(1)), r"state must be a dataclass, a pydantic model, or None beside an is_state function"),
        (None, r"state=None needs an is_state function"),
    ],
)
def test_other_types_are_refused_at_definition(cls: Any, problem: str) -> None:
    with pytest.raises(InvalidDefinition, match=rf"^DurableTask 'shop\.refund': {problem}"):
        typed(cls)


def test_is_state_must_be_a_function() -> None:
    with pytest.raises(InvalidDefinition, match="is_state must be a function"):
        state_type(Item, True, where="x")  # type: ignore[arg-type]
