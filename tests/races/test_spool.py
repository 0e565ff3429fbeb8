"""Readers page through spools that others rewrite, delete and purge: never a mixture, never a hole."""

from __future__ import annotations

from collections import Counter

import pytest

from . import spools
from .course import Course

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def test_readers_see_one_version_whole_until_its_grace_is_over(course: Course) -> None:
    results: list[Counter[str]] = course.race(spools.work, 2)
    seen = sum(results, Counter[str]())
    for what in spools.SEEN:
        assert seen[what] > 0, f"this was no race: nothing was {what}"
    entries, blobs, with_chunks = course.look(spools.settle)
    assert entries == blobs == with_chunks
