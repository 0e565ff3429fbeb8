"""``stores``: aliases, options, and what stands for a setting that is not there."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

import django_statestore
from django_statestore import Store, stores
from django_statestore.backends.base import BaseBackend
from django_statestore.backends.database import DatabaseBackend
from django_statestore.contracts.kv import KV
from django_statestore.exceptions import (
    InvalidKey,
    InvalidKeyType,
    NotSupported,
    StateStoreError,
    StoreDoesNotExist,
    StoreMisconfigured,
)

DATABASE = "django_statestore.backends.database.DatabaseBackend"


class MuteBackend(BaseBackend):
    """A backend of somebody else's, with an option of its own and no facet."""

    def __init__(self, *, alias: str = "", namespace: str = "mute", level: int = 0) -> None:
        super().__init__(alias=alias, namespace=namespace)
        self.level = level


class OpenBackend(BaseBackend):
    """A backend that leaves the common options to the base class."""

    def __init__(self, *, level: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.level = level


def configured(**options: Any) -> dict[str, Any]:
    return {"other": {"BACKEND": DATABASE, "OPTIONS": options}}


# -- aliases ----------------------------------------------------------------------------------------------------------


def test_an_alias_gives_one_store_to_everybody() -> None:
    found: list[Store] = []
    threads = [threading.Thread(target=lambda: found.append(stores["default"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each in [*found, stores["default"]]}) == 1


def test_store_is_the_default_store() -> None:
    assert django_statestore.store.backend is stores["default"].backend
    assert isinstance(django_statestore.store.kv, KV)


def test_an_unknown_alias_is_named() -> None:
    with pytest.raises(StoreDoesNotExist, match=r"^there is no store 'nope': add it to the STATESTORES") as caught:
        stores["nope"]
    assert isinstance(caught.value, KeyError)
    assert caught.value.alias == "nope"


def test_an_error_survives_a_pickle() -> None:
    for error in (StoreDoesNotExist("nope"), NotSupported("text"), InvalidKey("text")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))


def test_the_aliases_can_be_looked_through() -> None:
    assert list(stores) == list(settings.STATESTORES)
    assert len(stores) == len(settings.STATESTORES)
    assert "default" in stores
    assert "nope" not in stores
    assert [each.alias for each in stores.all()] == list(stores)


def test_override_settings_resets() -> None:
    before = stores["default"]
    with override_settings(STATESTORES=configured(namespace="elsewhere")):
        assert list(stores) == ["other"]
        assert stores["other"].names == ("elsewhere",)
        with pytest.raises(StoreDoesNotExist):
            django_statestore.store.kv  # noqa: B018
    assert stores["default"] is not before
    assert stores["default"].names == ()


@pytest.fixture
def no_setting() -> Iterator[None]:
    with override_settings():
        del settings.STATESTORES
        yield


@pytest.mark.usefixtures("no_setting")
@pytest.mark.django_db
def test_without_a_setting_default_is_the_default_database() -> None:
    assert list(stores) == ["default"]
    backend = stores["default"].backend
    assert isinstance(backend, DatabaseBackend)
    assert backend.database.alias == "default"
    django_statestore.store.kv.set("k", 1)
    assert django_statestore.store.kv.get("k") == 1


# -- what a store is --------------------------------------------------------------------------------------------------


def test_two_aliases_of_one_database_see_the_same_entries(store: Store, alias: str) -> None:
    same = {
        "a": {"BACKEND": DATABASE, "OPTIONS": {"database": alias}},
        "b": {"BACKEND": DATABASE, "OPTIONS": {"database": alias, "prepare": False}},
        "apart": {"BACKEND": DATABASE, "OPTIONS": {"database": alias, "namespace": "apart"}},
        "deep": {"BACKEND": DATABASE, "OPTIONS": {"database": alias, "namespace": ["apart", "deep"]}},
    }
    with override_settings(STATESTORES=same):
        names = store.names
        stores["a"].at(names).kv.set("k", 1)
        assert stores["b"].at(names).kv.get("k") == 1
        assert stores["apart"].namespace(*names).kv.get("k") is None
        stores["apart"].namespace(*names).kv.set("k", 2)
        assert stores["a"].at(("apart", *names)).kv.get("k") == 2
        assert stores["deep"].names == ("apart", "deep")
        assert stores["deep"].namespace(*names).kv.get("k") is None
        assert store.kv.get("k") == 1


def test_a_store_can_be_built_without_settings(alias: str, store: Store) -> None:
    built = DatabaseBackend(database=alias, namespace=store.names).store()
    built.kv.set("k", 1)
    assert store.kv.get("k") == 1
    assert built.alias == ""
    assert repr(built) == f"<Store DatabaseBackend namespace={store.names!r}>"


def test_namespaces_nest_and_at_is_absolute() -> None:
    store = stores["default"]
    nested = store.namespace("a").namespace("b", "c")
    assert nested.names == ("a", "b", "c")
    assert nested.namespace().names == nested.names
    assert nested.at(("x",)).names == ("x",)
    assert store.names == ()
    assert repr(nested) == "<Store default namespace=('a', 'b', 'c')>"


@pytest.mark.parametrize("name", ["", "a\0", "\ud800", "x" * 1025], ids=["empty", "nul", "surrogate", "long"])
def test_a_wrong_namespace_is_refused_at_once(name: str) -> None:
    with pytest.raises(InvalidKey):
        stores["default"].namespace(name)


@pytest.mark.parametrize("name", [None, 1, b"x", ("a",)], ids=repr)
def test_a_namespace_of_another_type_is_a_type_error(name: Any) -> None:
    with pytest.raises(InvalidKeyType):
        stores["default"].namespace(name)


def test_a_facet_that_a_backend_has_not_is_not_supported() -> None:
    store = MuteBackend().store()
    assert store.names == ("mute",)
    for facet in ("kv", "lock", "dedup", "spool", "durable"):
        with pytest.raises(NotSupported, match=f"MuteBackend.* has no facet '{facet}'") as caught:
            getattr(store, facet)
        assert isinstance(caught.value, StateStoreError)


def test_a_store_is_not_copied_with_its_connections() -> None:
    store = stores["default"].namespace("a")
    assert copy.copy(store).backend is store.backend


# -- wrong settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (
            {"BACKEND": DATABASE, "OPTIONS": {"cache": "x"}},
            r"STATESTORES['other']['OPTIONS']['cache'] is unknown; known ",
        ),
        ({"BACKEND": DATABASE, "OPTIONS": {"alias": "x"}}, r"STATESTORES['other']['OPTIONS']['alias'] is unknown"),
        ({"BACKEND": DATABASE, "OPTIONS": {"database": "x"}}, r"STATESTORES['other']['OPTIONS']['database'] names 'x'"),
        ({"BACKEND": DATABASE, "OPTIONS": {"database": None}}, r"STATESTORES['other']['OPTIONS']['database']"),
        ({"BACKEND": DATABASE, "OPTIONS": {"prepare": "yes"}}, r"STATESTORES['other']['OPTIONS']['prepare'] must be"),
        ({"BACKEND": DATABASE, "OPTIONS": {"namespace": ""}}, r"STATESTORES['other']['OPTIONS']['namespace']"),
        ({"BACKEND": DATABASE, "OPTIONS": {"namespace": "\0"}}, r"STATESTORES['other']['OPTIONS']['namespace']"),
        ({"BACKEND": DATABASE, "OPTIONS": {"namespace": 5}}, r"STATESTORES['other']['OPTIONS']['namespace']"),
        ({"BACKEND": DATABASE, "OPTIONS": {"namespace": [5]}}, r"STATESTORES['other']['OPTIONS']['namespace']"),
        ({"BACKEND": DATABASE, "OPTIONS": None}, r"STATESTORES['other']['OPTIONS'] must be a dict"),
        ({"BACKEND": DATABASE, "OPTIONS": ["database"]}, r"STATESTORES['other']['OPTIONS'] must be a dict"),
        ({"BACKEND": DATABASE, "LOCATION": ""}, r"STATESTORES['other']['LOCATION'] is unknown; known are BACKEND and "),
        ({}, r"STATESTORES['other']['BACKEND'] must be the dotted path"),
        ({"BACKEND": 5}, r"STATESTORES['other']['BACKEND'] must be the dotted path"),
        ({"BACKEND": "nope"}, r"STATESTORES['other']['BACKEND'] cannot be imported"),
        ({"BACKEND": "nope.Nope"}, r"STATESTORES['other']['BACKEND'] cannot be imported"),
        ({"BACKEND": "django_statestore.backends.base.Nope"}, r"STATESTORES['other']['BACKEND'] cannot be imported"),
        ({"BACKEND": "django_statestore.store.Store"}, r"STATESTORES['other']['BACKEND'] is not a backend class"),
        ({"BACKEND": "django_statestore.stores"}, r"STATESTORES['other']['BACKEND'] is not a backend class"),
        (None, r"STATESTORES['other'] must be a dict"),
        (DATABASE, r"STATESTORES['other'] must be a dict"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_by_its_path(configuration: Any, message: str) -> None:
    with override_settings(STATESTORES={"other": configuration}), pytest.raises(StoreMisconfigured) as caught:
        stores["other"]
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value, ImproperlyConfigured)


@pytest.mark.parametrize("setting", [None, [], "default"], ids=repr)
def test_the_setting_must_be_a_dict(setting: Any) -> None:
    with override_settings(STATESTORES=setting), pytest.raises(StoreMisconfigured, match="STATESTORES must be a dict"):
        stores["default"]


def test_the_known_options_are_listed() -> None:
    with (
        override_settings(STATESTORES=configured(databse="default")),
        pytest.raises(StoreMisconfigured, match=r"known are database, namespace, prepare$"),
    ):
        stores["other"]


def test_a_backend_of_ones_own_has_its_own_options() -> None:
    mine = {"BACKEND": f"{__name__}.MuteBackend", "OPTIONS": {"level": 3}}
    with override_settings(STATESTORES={"other": mine}):
        backend: Any = stores["other"].backend
        assert (backend.level, backend.names, backend.alias) == (3, ("mute",), "other")
    wrong = {"BACKEND": f"{__name__}.MuteBackend", "OPTIONS": {"levle": 3}}
    with (
        override_settings(STATESTORES={"other": wrong}),
        pytest.raises(StoreMisconfigured, match="known are level, name"),
    ):
        stores["other"]


def test_a_backend_may_leave_options_to_its_base_class() -> None:
    mine = {"BACKEND": f"{__name__}.OpenBackend", "OPTIONS": {"level": 3, "namespace": "n"}}
    with override_settings(STATESTORES={"other": mine}):
        backend: Any = stores["other"].backend
        assert (backend.level, backend.names, backend.alias) == (3, ("n",), "other")


def test_one_wrong_alias_does_not_disturb_another() -> None:
    both = {"default": {"BACKEND": DATABASE}, "other": {"BACKEND": "nope.Nope"}}
    with override_settings(STATESTORES=both):
        assert stores["default"].alias == "default"
        for _ in range(2):
            with pytest.raises(StoreMisconfigured):
                stores["other"]
