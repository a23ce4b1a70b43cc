"""The examples that store no cursors themselves print the events of the feed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub, live_hub
from tests.processing.programs import running

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        for name in ("order.placed", "order.paid"):
            client.create_event_type(name, partition_count=2)
            client.publish(name, {"order_id": 7})
        yield hub


def printed(line_count: int, example: str, *arguments: str) -> list[str]:
    """Run an example until it has printed *line_count* lines, end it, and return the lines."""
    with running(str(EXAMPLES / example), *arguments) as program:
        lines = [program.line() for _ in range(line_count)]
        assert all(lines), program.errors()
    return lines


def test_example_with_a_cursor_set_prints_the_event(hub: LiveHub) -> None:
    url = f"{hub.url}/feeds/order.placed"

    assert printed(1, "consume_with_cursorset.py", url) == ["7"]


def test_asyncio_example_follows_two_feeds(hub: LiveHub) -> None:
    lines = printed(2, "consume_async.py", hub.url, "order.placed", "order.paid")

    assert sorted(lines) == ['order.paid {"order_id":7}', 'order.placed {"order_id":7}']
