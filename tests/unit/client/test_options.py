"""Options of streams, consumers and producers: their defaults, and the values that are refused."""

import asyncio
import threading
from typing import Any

import pytest

from penstock import AsyncClient, Client
from penstock.client.registry import PublishingProperties, properties_of
from penstock.client.subscriptions.stream_protocol import StreamParameters
from penstock.errors import BadParameter, ProducerStateExpired
from tests.unit.client.play import shown_producer


def test_stream_asks_for_a_window_of_ten_batches_or_for_the_options_that_are_given() -> None:
    assert StreamParameters().members() == {
        "batch_limit": 100,
        "batch_flush_timeout": 0.1,
        "max_uncommitted_events": 1000,
        "commit_timeout": 60,
    }

    given: Any = {
        "batch_limit": 5,
        "batch_flush_timeout": 2,
        "batch_timespan": 3,
        "max_uncommitted_events": 7,
        "commit_timeout": 30,
        "stream_timeout": 600,
        "stream_limit": 100,
    }

    asked = StreamParameters(**given, partitions={("b", 1), ("a", 2)}).members()

    places = [{"event_type": "a", "partition": "2"}, {"event_type": "b", "partition": "1"}]
    assert asked == {**given, "partitions": places}


@pytest.mark.parametrize(
    ("options", "seconds"),
    [({}, 120.0), ({"commit_timeout": 1}, 2.0), ({"commit_timeout": 1, "batch_flush_timeout": 9}, 9.0)],
    ids=["default", "short", "rarely flushed"],
)
def test_live_stream_is_silent_for_two_commit_timeouts_or_one_flush_at_most(options: Any, seconds: float) -> None:
    assert StreamParameters(**options).silence == seconds


@pytest.mark.parametrize(
    ("name", "value", "other_kind"),
    [
        ("subscription", 5, 5),
        ("handler", None, None),
        ("cancel", True, True),
        ("cancel", asyncio.Event(), threading.Event()),  # A client would wait for the other kind's event for ever.
    ],
    ids=["subscription", "handler", "cancel", "event of the other kind"],
)
def test_consumer_with_a_wrong_argument_is_refused_before_it_reads(name: str, value: Any, other_kind: Any) -> None:
    with Client("http://localhost:1") as client, pytest.raises(BadParameter, match=name):
        client.consume(**{"subscription": "s", "handler": print, name: value})
    with pytest.raises(BadParameter, match=name):
        asyncio.run(
            AsyncClient("http://localhost:1").consume(**{"subscription": "s", "handler": print, name: other_kind})
        )


def test_producer_state_is_shown_as_properties_until_it_expires() -> None:
    state = shown_producer(partition=2, epoch=5, last_published_sequence=6, next_sequence=7, last_offset=99)

    assert properties_of(state) == PublishingProperties(2, "g", 5, 6, 7, 99)

    with pytest.raises(ProducerStateExpired) as refused:
        properties_of(shown_producer(partition=2, epoch=5, next_sequence=None, expired=True))

    assert refused.value.fields == {"producer_group": "g", "partition": 2, "current_epoch": 5}
