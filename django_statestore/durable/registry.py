"""The definitions that this process knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.module_loading import autodiscover_modules

from ..exceptions import InvalidDefinition, UnknownDefinition

if TYPE_CHECKING:
    from .definition import Definition

_definitions: dict[str, Definition[Any]] = {}


def register(definition: Definition[Any]) -> None:
    """Make a definition known by its id. The same module may be imported anew; two definitions of one id may not."""
    known = _definitions.get(definition.id)
    if known is not None and known.module != definition.module:
        raise InvalidDefinition(definition.where, f"is defined in {known.module} and in {definition.module}")
    _definitions[definition.id] = definition


def unregister(definition: Definition[Any]) -> None:
    """Forget a definition again, as a test may want to."""
    if _definitions.get(definition.id) is definition:
        del _definitions[definition.id]


def autodiscover() -> None:
    """Import ``durable_tasks`` of every installed app, and check each definition as a whole."""
    autodiscover_modules("durable_tasks")
    for definition in definitions():
        definition.seal()


def definitions() -> list[Definition[Any]]:
    """Return every known definition."""
    return list(_definitions.values())


def definition_of(id: str) -> Definition[Any]:
    """Return the definition named ``id``, or raise ``UnknownDefinition``."""
    try:
        return _definitions[id]
    except KeyError:
        raise UnknownDefinition(
            f"no installed app defines the durable task {id!r}: is its durable_tasks.py in INSTALLED_APPS here?"
        ) from None


def find_definition(id: str) -> Definition[Any] | None:
    """Return the definition named ``id``, or None where no installed app defines it."""
    return _definitions.get(id)


def known_fingerprints() -> dict[str, Definition[Any]]:
    """Return the definitions by fingerprint: the tasks that this process can continue."""
    return {definition.fingerprint: definition for definition in definitions()}
