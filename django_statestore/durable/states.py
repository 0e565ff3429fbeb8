"""Turn a durable task's state into a plain value for the codec and back, strictly by its declared type."""

from __future__ import annotations

import dataclasses
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .._paths import path_of
from ..exceptions import InvalidDefinition, StateInvalid
from .annotations import Undeclarable, shape_of
from .shapes import Mismatch, Shape

S = TypeVar("S")


class StateType(ABC, Generic[S]):
    """Write and read the states of one declared type.

    ``dump`` and ``load`` raise ``StateInvalid``, which names the path, for whatever is not of the type or is refused by
    ``is_state``. A plain value is for ``codec.dumps`` at once: it may share parts with the state.
    """

    def __init__(self, name: str, is_state: Callable[[Any], bool] | None) -> None:
        self.name = name
        self._is_state = is_state

    def dump(self, state: S) -> Any:
        """Return the plain value that stands for a state."""
        plain = self._dump(state)
        self._test(state)
        return plain

    def load(self, plain: Any) -> S:
        """Return the state for which a plain value stands."""
        state = self._load(plain)
        self._test(state)
        return state

    @abstractmethod
    def _dump(self, state: S) -> Any: ...

    @abstractmethod
    def _load(self, plain: Any) -> S: ...

    def _test(self, state: S) -> None:
        if self._is_state is None:
            return
        try:
            accepted = self._is_state(state)
        except Exception as error:
            raise StateInvalid(f"$: is_state raised {type(error).__qualname__} on it") from error
        if accepted is not True:
            raise StateInvalid("$: is_state did not answer True to it")


class AnyState(StateType[Any]):
    """Leave the state as it is: any value of the codec, judged by ``is_state`` alone."""

    def _dump(self, state: Any) -> Any:
        return state

    def _load(self, plain: Any) -> Any:
        return plain


class DataclassState(StateType[S]):
    """Walk a dataclass by its annotations; the plain value is a dict of its fields, without the name of the class."""

    def __init__(self, shape: Shape, is_state: Callable[[Any], bool] | None) -> None:
        super().__init__(shape.name, is_state)
        self._shape = shape

    def _dump(self, state: S) -> Any:
        return _converted(self._shape.dump.convert, state)

    def _load(self, plain: Any) -> S:
        state: S = _converted(self._shape.load.convert, plain)
        return state


def _converted(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except Mismatch as mismatch:
        raise StateInvalid(f"{path_of(reversed(mismatch.steps))}: {mismatch.problem}") from mismatch.__cause__
    except RecursionError:
        raise StateInvalid("$: nests too deep, or contains itself") from None


def state_type(declared: type[S] | None, is_state: Callable[[Any], bool] | None, *, where: str) -> StateType[S]:
    """Return how to write and read states of the declared type; ``None`` means any value that ``is_state`` accepts.

    A missing member takes its field's default, so a field with a default can be added without a new revision. Raises
    ``InvalidDefinition``, which names the field, for a type whose values would not come back the same.
    """
    if is_state is not None and not callable(is_state):
        raise InvalidDefinition(where, "is_state must be a function that takes a state and returns True or False")
    if declared is None:
        if is_state is None:
            raise InvalidDefinition(where, "state=None needs an is_state function that tells what a state is")
        return AnyState("any value", is_state)
    if _is_model(declared):
        from .pydantic_states import model_state

        return model_state(declared, is_state, where=where)
    if not isinstance(declared, type) or not dataclasses.is_dataclass(declared):
        problem = "state must be a dataclass, a pydantic model, or None beside an is_state function"
        raise InvalidDefinition(where, problem)
    try:
        return DataclassState(shape_of(declared), is_state)
    except Undeclarable as error:
        problem = str(error)
    raise InvalidDefinition(where, problem)


def _is_model(declared: object) -> bool:
    """Return whether it is a pydantic model, without importing pydantic: who has a model has imported it."""
    base = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    return isinstance(declared, type) and isinstance(base, type) and issubclass(declared, base)
