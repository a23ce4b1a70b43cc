"""Tests that wait for seconds, which are the least that can be asked for: those of a module are played at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.nakadi import Nakadi

Scene = Callable[[Nakadi], None]
PLAYED_AT_ONCE = 12
_SCENES: dict[str, list[Scene]] = {}


def scene(play: Scene) -> Callable[[Any], None]:
    """Make a test of what is played with a hub; it is played together with the other scenes of its module."""
    _SCENES.setdefault(play.__module__, []).append(play)

    def test(played: dict[Scene, "Future[None]"]) -> None:
        played[play].result()

    test.__name__, test.__qualname__, test.__doc__ = play.__name__, play.__qualname__, play.__doc__
    test.__module__ = play.__module__
    return test


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, scene_hub: Nakadi) -> Iterator[dict[Scene, "Future[None]"]]:
    """What has come of each scene of the module; they share one hub."""
    with ThreadPoolExecutor(PLAYED_AT_ONCE) as threads:
        yield {play: threads.submit(play, scene_hub) for play in _SCENES[request.module.__name__]}
