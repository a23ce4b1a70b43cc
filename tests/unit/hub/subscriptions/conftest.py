"""A hub that streams subscriptions, on a store that a test can interfere with."""

from collections.abc import Iterator

import pytest

from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.subscribing import Played


@pytest.fixture
def hub(forwarding: ForwardingStore) -> Iterator[Played]:
    played = Played(forwarding)
    yield played
    played.stop()
