"""Each machine runs on every kind of store."""

import pytest

from .grounds import GROUNDS, Ground


@pytest.fixture(params=GROUNDS, ids=lambda ground: "sqlite" if ground.name == "default" else ground.name)
def ground(request: pytest.FixtureRequest) -> Ground:
    result: Ground = request.param
    return result
