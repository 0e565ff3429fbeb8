"""States that are pydantic models, for the tests of them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID

from django.utils.functional import cached_property
from pydantic import (
    AliasPath,
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    SecretStr,
    SerializeAsAny,
    computed_field,
    field_validator,
    model_validator,
)  # fmt: skip

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str] = []


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Item(BaseModel):
    model_config = ConfigDict(frozen=True)

    sku: str
    price: Decimal
    n: int = Field(default=1, ge=0)


class Point(NamedTuple):
    x: int
    y: int


class Visit(NamedTuple):
    at: datetime
    who: str


@dataclasses.dataclass(frozen=True, slots=True)
class Spot:
    at: Point
    seen: datetime | None = None


class Order(BaseModel):
    model_config = ConfigDict(ignored_types=(cached_property,))

    id: int
    items: list[Item] = []
    by_name: dict[str, Item] = {}
    by_number: dict[int, Item] = {}
    first: Item | None = None
    pair: tuple[int, Item] | None = None
    row: tuple[Colour, ...] = ()
    colour: Colour = Colour.RED
    seen: set[Colour] = set()
    ids: frozenset[UUID] = frozenset()
    pet: Pet | None = None
    value: int | str | list[Decimal] | None = None
    loose: Any = None
    ratio: float = 0.0
    raw: bytes = b""
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    moments: set[datetime] = set()
    log: list[tuple[datetime, str]] = []
    visits: list[Visit] = []
    by_time: dict[datetime, str] = {}
    day: date = date(2026, 1, 1)
    clock: time = time(0)
    delta: timedelta = timedelta(0)
    url: AnyUrl | None = None
    spot: Spot | None = None
    named: int = Field(default=0, validation_alias=AliasPath("deep", "name"), serialization_alias="otherName")
    limit: ClassVar[int] = 5

    @computed_field  # type: ignore[prop-decorator]
    @property
    def count(self) -> int:
        return len(self.items)

    @cached_property
    def dear(self) -> bool:
        return True


class Tree(BaseModel):
    name: str
    parts: list[Tree] = []
    parent: Tree | None = None


class Checked(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def not_below(cls, n: int) -> int:
        if n < 0:
            raise ValueError("hunter2")
        if n == 13:
            raise KeyError("hunter2")
        return n


class Hidden(BaseModel):
    name: str = ""
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)
    _client: Callable[[], int] | None = None


class Lax(BaseModel):
    """Allow what states are not allowed: members beyond its fields, and values of other types."""

    model_config = ConfigDict(
        extra="allow", strict=False, arbitrary_types_allowed=True, use_enum_values=True, validate_default=True
    )

    name: str = Field(default="", exclude=True)
    colour: Colour = Colour.RED
    secret: SecretStr = SecretStr("")
    point: Point | None = None
    inner: Order | None = None
    thing: Exception | None = None
    base: Cat | None = None
    as_it_is: SerializeAsAny[Cat] | None = None


class Special(Cat):
    more: int = 1


class Doubling(BaseModel):
    n: int

    @model_validator(mode="after")
    def doubled(self) -> Doubling:
        self.n *= 2
        return self


class Box(BaseModel, Generic[T]):
    content: T


class Numbers(RootModel[list[int]]):
    pass


class Unresolved(BaseModel):
    member: Unimported  # type: ignore[name-defined]  # noqa: F821


class Early(BaseModel):
    later: Later | None = None


class Later(BaseModel):
    n: int = 0
