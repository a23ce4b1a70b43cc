import pytest

from penstock.errors import BadParameter
from penstock.spark.zeroeventhub.options import RemoteOptions, parse_remote_options
from penstock.wire.log.reader.protocol import ALL_HEADERS, ReadParameters

URL = "http://shop.example/feed?tenant=7"


def parse_with(**given: str) -> RemoteOptions:
    return parse_remote_options({"url": URL} | given)


def test_the_url_is_enough() -> None:
    assert parse_with() == RemoteOptions(url=URL)
    assert not parse_with().include_headers


def test_all_options_are_read() -> None:
    options = parse_with(
        PARTITIONCOUNT="4",
        version="1",
        startingCursors='{"0": "a7", "3": "_last"}',
        landingLocation="/var/landing",
        maxEventsPerTrigger="1000",
        pageSizeHint="50",
        eventTypes="placed, paid",
        includeHeaders="true",
        headers="ce_id,ce_time",
        tokenFile="/run/token",
        failOnDataLoss="false",
        retryTimeout="1.5 seconds",
    )

    assert options == RemoteOptions(
        url=URL,
        partition_count=4,
        version=1,
        starting_cursors={0: "a7", 3: "_last"},
        landing_location="/var/landing",
        max_events_per_trigger=1000,
        page_size_hint=50,
        event_types=("placed", "paid"),
        headers=("ce_id", "ce_time"),
        authorization_file="/run/token",
        fail_on_data_loss=False,
        retry_timeout=1.5,
    )
    assert options.include_headers
    assert options.wish(20) == ReadParameters(
        page_size_hint=20, headers=("ce_id", "ce_time"), event_types=("placed", "paid")
    )


def test_all_headers_come_unless_some_are_named() -> None:
    assert parse_with(includeHeaders="true").headers == (ALL_HEADERS,)
    assert parse_with(includeHeaders="false").headers == ()


def test_cursors_may_stand_as_in_a_checkpoint() -> None:
    assert parse_with(startingCursors='{"0": {"page": 3, "number": 7, "cursor": "a7"}}').starting_cursors == {0: "a7"}
    assert parse_with(startingCursors="_last").starting_cursors == "_last"
    assert parse_with(startingCursors=" _first ").starting_cursors == "_first"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("url", "", "option url is ''; allowed: the feed's address, such as http"),
        ("url", "shop/feed", "option url is 'shop/feed'; allowed: the feed's address, such as http://shop/feed"),
        ("url", "http://shop/feed#top", "option url is 'http://shop/feed#top'"),
        ("partitionCount", "0", "option partitionCount is '0'; allowed: a whole number, 1 or more"),
        ("partitionCount", "40000", "option partitionCount is '40000'; allowed: a whole number, 1 to 32768"),
        ("version", "3", "option version is '3'; allowed: 1 (ZeroEventHub) or 2 (FeedAPI)"),
        ("version", "1", "option partitionCount is missing; allowed: the number of partitions that the publisher of"),
        (
            "startingCursors",
            "earliest",
            "option startingCursors is 'earliest'; allowed: _first, _last, or JSON such as",
        ),
        ("startingCursors", "{}", "allowed: _first, _last, or JSON such as"),
        ("startingCursors", '["a7"]', "allowed: _first, _last, or JSON such as"),
        ("startingCursors", '{"0": 7}', "allowed: _first, _last, or JSON such as"),
        ("startingCursors", '{"0": {"page": 1}}', "allowed: _first, _last, or JSON such as"),
        ("startingCursors", '{"-1": "a7"}', "allowed: _first, _last, or JSON such as"),
        ("landingLocation", " ", "option landingLocation is ' '; allowed: a path that driver and executors reach"),
        ("maxEventsPerTrigger", "0", "option maxEventsPerTrigger is '0'; allowed: a whole number, 1 or more"),
        ("pageSizeHint", "many", "option pageSizeHint is 'many'; allowed: a whole number, 1 or more"),
        ("eventTypes", "placed,,paid", "option eventTypes is 'placed,,paid'; allowed: a name, or several"),
        ("eventTypes", "placed;paid", "option eventTypes is 'placed;paid'; allowed: a name, or several"),
        ("includeHeaders", "all", "option includeHeaders is 'all'; allowed: true or false"),
        ("headers", "ce_id", "option headers is 'ce_id'; allowed: beside includeHeaders=true alone"),
        ("failOnDataLoss", "no", "option failOnDataLoss is 'no'; allowed: true or false"),
        ("retryTimeout", "long", "option retryTimeout is 'long'; allowed: a duration"),
        ("eventType", "placed", "there is no option 'eventType'"),
    ],
)
def test_zeroeventhub_option_is_refused_with_the_allowed_values(name: str, value: str, said: str) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_with(**{name: value})

    assert said in str(refused.value)
