"""The options with which a feed is written."""

import pytest

from penstock.errors import BadParameter
from penstock.spark.sink_options import SinkOptions, as_given, parse_sink_options
from penstock.wire.producers import NUMBER_MAX

LEAST = {"url": "http://localhost:1/", "eventType": "order.placed"}


def parse_with(**given: str) -> SinkOptions:
    return parse_sink_options(LEAST | given)


def test_sink_needs_url_and_event_type_only() -> None:
    assert parse_with() == SinkOptions(url="http://localhost:1", event_type="order.placed")


def test_sink_options_may_be_in_any_case() -> None:
    options = parse_with(
        PRODUCERGROUP="nightly", batchid=str(NUMBER_MAX), onInvalid="Reject", retryTimeout="1.5 seconds"
    )

    assert options == SinkOptions(
        url="http://localhost:1",
        event_type="order.placed",
        producer_group="nightly",
        batch_id=NUMBER_MAX,
        on_invalid="reject",
        retry_timeout=1.5,
    )


def test_options_are_given_again_as_they_were_read() -> None:
    for given in (
        {},
        {"mode": "Direct", "producerGroup": "g", "batchId": "7", "retryTimeout": "0"},
        {"token": "t"},
        {"tokenFile": "/t"},
    ):
        options = parse_with(**given)
        assert parse_sink_options(as_given(options)) == options


def test_in_mode_direct_nothing_is_set_apart() -> None:
    with pytest.raises(BadParameter, match="option onInvalid is 'reject'; allowed: fail in mode direct"):
        parse_with(mode="direct", onInvalid="reject")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "localhost"),
        ("eventType", "a,b"),
        ("eventType", " "),
        ("producerGroup", "a b"),
        ("producerGroup", ".."),
        ("batchId", "-1"),
        ("batchId", "1"),
        ("onInvalid", "skip"),
        ("mode", "fast"),
        ("retryTimeout", "long"),
    ],
)
def test_sink_option_is_refused_with_its_name_and_the_allowed_values(name: str, value: str) -> None:
    with pytest.raises(BadParameter, match=f"option {name} is .*; allowed: "):
        parse_with(**{name: value})


def test_a_number_that_no_batch_can_have_is_refused() -> None:
    with pytest.raises(BadParameter, match="option batchId is "):
        parse_with(producerGroup="g", batchId=str(NUMBER_MAX + 1))


@pytest.mark.parametrize("name", ["startingOffsets", "consumerGroup", "path-"])
def test_an_option_of_readers_is_refused(name: str) -> None:
    with pytest.raises(BadParameter, match=f"there is no option '{name}' .*producerGroup"):
        parse_with(**{name: "x"})
