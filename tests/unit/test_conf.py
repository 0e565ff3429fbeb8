"""The STATESTORE setting: defaults, checks, and that it is read when it is used."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_statestore import conf
from django_statestore.exceptions import StateStoreError, StoreMisconfigured


@override_settings(STATESTORE={})
def test_without_a_setting_the_defaults_hold() -> None:
    assert conf.get() == conf.Settings()


@override_settings(STATESTORE={"LEASE": 1.5, "SPOOL_GRACE": timedelta(minutes=2), "MAX_CLAIMS": 3, "HINTS": False})
def test_durations_are_seconds_or_timedeltas_and_become_milliseconds() -> None:
    given = conf.get()
    assert (given.lease, given.spool_grace, given.max_claims, given.hints) == (1500, 120_000, 3, False)
    assert given.sweep_every == conf.Settings().sweep_every


def test_it_follows_override_settings() -> None:
    before = conf.get()
    with override_settings(STATESTORE={"LEASE": 7}):
        assert conf.get().lease == 7000
        with override_settings(STATESTORE={"LEASE": 8}):
            assert conf.get().lease == 8000
        assert conf.get().lease == 7000
    assert conf.get() == before


@pytest.mark.parametrize("name", sorted(asdict(conf.Settings())))
@pytest.mark.parametrize("value", [None, "x", -1, 0, []], ids=repr)
def test_a_wrong_value_is_named_by_its_path(name: str, value: Any) -> None:
    with (
        override_settings(STATESTORE={name.upper(): value}),
        pytest.raises(StoreMisconfigured, match=rf"^STATESTORE\['{name.upper()}'\]") as caught,
    ):
        conf.get()
    assert isinstance(caught.value, ImproperlyConfigured)
    assert isinstance(caught.value, StateStoreError)


@pytest.mark.parametrize("name", ["MAX_CLAIMS", "HISTORY_BYTES", "LEASE"])
def test_a_boolean_is_no_number(name: str) -> None:
    with override_settings(STATESTORE={name: True}), pytest.raises(StoreMisconfigured, match=name):
        conf.get()


@pytest.mark.parametrize("name", ["lease", "LEASES", "", 5])
def test_an_unknown_name_is_refused_with_the_known_ones(name: Any) -> None:
    with (
        override_settings(STATESTORE={name: 1}),
        pytest.raises(StoreMisconfigured, match=r"is unknown; known are HINTS, HISTORY_BYTES, LEASE") as caught,
    ):
        conf.get()
    assert f"STATESTORE[{name!r}]" in str(caught.value)


@pytest.mark.parametrize("setting", [None, [], "LEASE", 5], ids=repr)
def test_it_must_be_a_dict(setting: Any) -> None:
    with override_settings(STATESTORE=setting), pytest.raises(StoreMisconfigured, match="STATESTORE must be a dict"):
        conf.get()


@override_settings(STATESTORE={"LEASE": 0})
def test_a_wrong_setting_stays_an_error() -> None:
    for _ in range(2):
        with pytest.raises(StoreMisconfigured):
            conf.get()


def test_the_values_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        conf.get().lease = 1  # type: ignore[misc]
