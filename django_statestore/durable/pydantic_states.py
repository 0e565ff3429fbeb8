"""Read and write states that are pydantic models. Imported only where such a state is declared.

The plain value is the model's JSON: fields by name, whatever their aliases; no computed field; a ``RootModel`` is its
root. It is read back by strict validation. Which fields were set, and which were left to their defaults, is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from pydantic import VERSION, BaseModel, TypeAdapter, ValidationError

from .._paths import Step, path_of
from ..exceptions import InvalidDefinition, StateInvalid
from .pydantic_values import difference, settled
from .states import StateType

S = TypeVar("S")

_OLDEST = (2, 12)  # the first whose validation takes ``extra``

_USERS_OWN = ("value_error", "assertion_error")


class ModelState(StateType[S]):
    """Write the JSON of a model, if reading it would give an equal one, of the same types in every part.

    So it is refused where a private attribute, an excluded field or an extra member holds what the JSON leaves out.
    """

    def __init__(self, model: type[S], is_state: Callable[[Any], bool] | None) -> None:
        super().__init__(model.__qualname__, is_state)
        self._model = model
        self._json: TypeAdapter[S] = TypeAdapter(model)

    def _dump(self, state: S) -> Any:
        if type(state) is not self._model:
            raise StateInvalid(f"$: expected {self.name}, got {type(state).__qualname__}")
        text = self._written(state)
        plain = json.loads(text)
        back = self._read(text, plain)
        found = difference(state, back)
        if found is not None:
            raise StateInvalid(f"{path_of(reversed(found.steps))}: {found.problem}")
        return plain

    def _load(self, plain: Any) -> S:
        problem = ""
        try:
            text = json.dumps(plain)
        except RecursionError:
            problem = "nests too deep, or contains itself"
        except (TypeError, ValueError) as error:  # another engine has saved what JSON has no word for
            problem = f"is no plain JSON: json.dumps raised {type(error).__qualname__} on it"
        if problem:
            raise StateInvalid(f"$: {problem}")
        return self._read(text.encode(), plain)

    def _written(self, state: S) -> bytes:
        try:
            # What has no form in JSON becomes null: the comparison tells where.
            text: bytes = self._json.dump_json(
                state, by_alias=False, round_trip=True, warnings=False, fallback=lambda value: None
            )
            return text
        except Exception as error:
            problem = f"has no form in JSON: pydantic raised {type(error).__qualname__} on it"
        raise StateInvalid(f"{path_of(_unwritable(state))}: {problem}")  # out here: the cause would show the value

    def _read(self, text: bytes, plain: Any) -> S:
        cause = None
        try:
            state = self._json.validate_json(text, strict=True, extra="forbid", by_alias=False, by_name=True)
            return cast(S, settled(state))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            if first["type"] in _USERS_OWN:
                cause = first.get("ctx", {}).get("error")
            path, problem = path_of(_steps(first["loc"], plain, first["type"])), _problem(first["type"], cause)
        except RecursionError:
            path, problem = "$", "nests too deep, or contains itself"
        except Exception as error:
            path, problem, cause = "$", f"{self.name} raised {type(error).__qualname__} on its members", error
        raise StateInvalid(f"{path}: {problem}") from cause  # out here: pydantic's own error shows the value


def model_state(model: type[S], is_state: Callable[[Any], bool] | None, *, where: str) -> StateType[S]:
    """Return how to write and read states of a pydantic model; raises ``InvalidDefinition`` for one that cannot be."""
    declared = cast(type[BaseModel], model)
    if tuple(map(int, VERSION.split(".")[:2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise InvalidDefinition(where, f"a pydantic model as state needs pydantic {oldest} or later; this is {VERSION}")
    if declared is BaseModel:
        raise InvalidDefinition(where, "BaseModel itself has no fields: declare a class of your own")
    if declared.__pydantic_generic_metadata__["parameters"]:
        problem = f"{model.__qualname__} is generic, and would read its parts as anything: give it its types"
        raise InvalidDefinition(where, f"{problem}, as in {model.__qualname__}[int]")
    try:
        declared.model_rebuild()
        return ModelState(model, is_state)
    except Exception as error:
        problem = str(error).splitlines()[0]
    raise InvalidDefinition(where, f"the annotations of {model.__qualname__} cannot be resolved: {problem}")


def _problem(kind: str, cause: BaseException | None) -> str:
    """Say what is wrong without showing the value, which some of pydantic's own messages do."""
    if kind == "missing":
        return "is missing, and has no default"
    if kind == "extra_forbidden":
        return "there is no such field"
    if cause is not None:
        return f"a validator raised {type(cause).__qualname__} on it"
    return f"pydantic refuses it with {kind!r}"


def _steps(location: Sequence[int | str], plain: Any, kind: str) -> list[Step]:
    """Return the part of an error's location that leads through the plain value: it names validators too."""
    steps: list[Step] = []
    for number, step in enumerate(location, 1):
        if _has(plain, step):
            plain = plain[step]
        elif kind != "missing" or number < len(location):
            continue
        steps.append(step)
    return steps


def _has(plain: Any, step: int | str) -> bool:
    if isinstance(plain, dict):
        return step in plain
    return isinstance(plain, list) and isinstance(step, int) and step < len(plain)


def _unwritable(state: Any) -> list[Step]:
    """Return the way to the field that has no form in JSON, as far as it leads through models."""
    steps: list[Step] = []
    passed: set[int] = set()
    while isinstance(state, BaseModel) and id(state) not in passed:
        passed.add(id(state))
        for name in type(state).model_fields:
            try:
                state.model_dump_json(include={name}, round_trip=True, warnings=False, fallback=lambda value: None)
            except Exception:
                steps.append(name)
                state = getattr(state, name, None)
                break
        else:
            break
    return steps
