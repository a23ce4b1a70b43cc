from typing import Any

import pytest

from penstock.client.stream_options import StreamWish, stream_wish
from penstock.errors import BadParameter


def test_the_window_has_room_for_ten_batches() -> None:
    assert StreamWish().members() == {
        "batch_limit": 100,
        "batch_flush_timeout": 1,
        "max_uncommitted_events": 1000,
        "commit_timeout": 60,
    }


def test_what_is_given_is_asked_for() -> None:
    given: Any = {
        "batch_limit": 5,
        "batch_flush_timeout": 2,
        "batch_timespan": 3,
        "max_uncommitted_events": 7,
        "commit_timeout": 30,
        "stream_timeout": 600,
        "stream_limit": 100,
    }

    asked = stream_wish({**given, "partitions": {("b", 1), ("a", 2)}}).members()

    places = [{"event_type": "a", "partition": "2"}, {"event_type": "b", "partition": "1"}]
    assert asked == {**given, "partitions": places}


@pytest.mark.parametrize(
    ("options", "seconds"),
    [({}, 120.0), ({"commit_timeout": 1}, 2.0), ({"commit_timeout": 1, "batch_flush_timeout": 9}, 9.0)],
    ids=["as it is", "short", "rarely flushed"],
)
def test_a_stream_that_is_alive_is_not_silent_for_longer(options: Any, seconds: float) -> None:
    assert stream_wish(options).silence == seconds


@pytest.mark.parametrize("name", ["batch_limit", "batch_flush_timeout", "commit_timeout"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True], ids=str)
def test_what_cannot_be_asked_for_is_refused(name: str, value: Any) -> None:
    with pytest.raises(BadParameter, match=name):
        StreamWish(**{name: value})


@pytest.mark.parametrize("name", ["batch_timespan", "max_uncommitted_events", "stream_timeout", "stream_limit"])
def test_less_than_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadParameter, match=name):
        StreamWish(**{name: -1})  # type: ignore[arg-type]


def test_an_option_that_there_is_not_is_named() -> None:
    given: Any = {"batchlimit": 3}
    with pytest.raises(TypeError, match="did you mean 'batch_limit'"):
        stream_wish(given)
