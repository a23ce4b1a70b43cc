"""The options of all sources and of the sink: Spark's strings in, one value out."""

import pickle
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pytest

from penstock.errors import BadParameter
from penstock.spark.messagedb import options as messagedb
from penstock.spark.nakadi import options as nakadi
from penstock.spark.options import EARLIEST, LATEST, NAMES, AskedOffsets, AskedTime, SourceOptions, parse_options
from penstock.spark.sink_options import SINK_NAMES, SinkOptions, as_given, parse_sink_options
from penstock.spark.zeroeventhub import options as zeroeventhub
from penstock.wire.log.reader.protocol import ALL_HEADERS, ReadParameters
from penstock.wire.producers import NUMBER_MAX


class Way(NamedTuple):
    """How options are read."""

    parse: Callable[[dict[str, str]], Any]
    names: Sequence[str]
    least: dict[str, str]
    """What has to be given."""
    value: Any
    """What comes of that."""


HUB: Final = "http://localhost:8080"
FEED: Final = {"url": HUB, "eventType": "order.placed"}
DATABASE: Final = "postgresql://reader:geheim@localhost:1/events"
SHOP: Final = "http://shop.example/feed?tenant=7"
WAYS: Final = {
    "penstock": Way(parse_options, NAMES, FEED, SourceOptions(url=HUB, event_types=("order.placed",))),
    "sink": Way(parse_sink_options, SINK_NAMES, FEED, SinkOptions(url=HUB, event_type="order.placed")),
    "messagedb": Way(
        messagedb.parse_category_options,
        messagedb.NAMES,
        {"url": DATABASE, "category": "account"},
        messagedb.CategoryOptions(url=DATABASE, categories=("account",)),
    ),
    "zeroeventhub": Way(
        zeroeventhub.parse_remote_options, zeroeventhub.NAMES, {"url": SHOP}, zeroeventhub.RemoteOptions(url=SHOP)
    ),
    "nakadi": Way(
        nakadi.parse_subscription_options,
        nakadi.NAMES,
        {"url": f"{HUB}/", "subscription": "5b6f9a3c", "landingLocation": "/var/landing"},
        nakadi.SubscriptionOptions(url=HUB, subscription="5b6f9a3c", landing_location="/var/landing"),
    ),
}
every_way: Final = pytest.mark.parametrize("way", WAYS)
DEFINED: Final = {"url": HUB, "owningApplication": "lake", "eventType": "a.b,c.d", "landingLocation": "s3://x"}
"""The options of a subscription that is found or created, in place of those of one that is named."""


def parse_with(way: str, **given: str) -> Any:
    return WAYS[way].parse(WAYS[way].least | given)


@every_way
def test_least_options_are_enough_and_each_of_them_is_missed(way: str) -> None:
    parse, _, least, value = WAYS[way]
    assert parse(least) == value
    for name in least:
        with pytest.raises(BadParameter, match=f"option {name} is missing"):
            parse({key: text for key, text in least.items() if key != name})


OPTIONS: Final[list[tuple[str, dict[str, str], dict[str, Any]]]] = [
    (
        "penstock",
        {
            "startingOffsets": '{"order.placed": {"epoch": 2, "0": 17, "1": -2, "3": -1, "from": {"0": 1}}}',
            "endingOffsets": '{"order.placed": {"0": 20}}',
            "maxEventsPerTrigger": "1000",
            "minPartitions": "8",
            "failOnDataLoss": "false",
            "includeHeaders": "TRUE",
            "retryTimeout": "1.5 seconds",
        },
        {
            "starting_offsets": {"order.placed": AskedOffsets(2, {0: 17, 1: EARLIEST, 3: LATEST})},
            "ending_offsets": {"order.placed": AskedOffsets(None, {0: 20})},
            "max_events_per_trigger": 1000,
            "min_partitions": 8,
            "fail_on_data_loss": False,
            "include_headers": True,
            "retry_timeout": 1.5,
        },
    ),
    ("penstock", {"url": "https://host/events/"}, {"url": "https://host/events"}),
    ("penstock", {"eventType": "a, b,a"}, {"event_types": ("a", "b")}),
    (
        "penstock",
        {
            "startingOffsets": "2026-11-20T10:00:00Z",
            "endingOffsets": '{"order.placed": "2026-11-21T10:00:00+01:00"}',
        },
        {
            "starting_offsets": AskedTime("2026-11-20T10:00:00Z"),
            "ending_offsets": {"order.placed": AskedTime("2026-11-21T10:00:00+01:00")},
        },
    ),
    (  # As it stands in a checkpoint.
        "penstock",
        {
            "startingOffsets": '{"order.placed": {"epoch": 1, "0": 5, "schema": "1.0.0", "reset": 2,'
            ' "from": {"epoch": 1, "0": 0}}}'
        },
        {"starting_offsets": {"order.placed": AskedOffsets(1, {0: 5})}},
    ),
    ("penstock", {}, {"payload": "json"}),
    (
        "penstock",
        {"payload": "Typed", "schemaEvolution": "latest", "schemaVersion": "1.2.0", "eventType": "a,b"},
        {"payload": "typed", "schema_evolution": "latest", "schema_versions": {"a": "1.2.0", "b": "1.2.0"}},
    ),
    (
        "penstock",
        {"payload": "both", "schemaVersion": '{"a": "1.2.0", "b": "latest"}', "eventType": "a,b"},
        {"schema_versions": {"a": "1.2.0"}},
    ),
    (
        "sink",
        {
            "producerGroup": "nightly",
            "batchId": str(NUMBER_MAX),
            "onInvalid": "Reject",
            "retryTimeout": "1.5 seconds",
            "checkpointLocation": "/x",
            "queryName": "q",
        },
        {"producer_group": "nightly", "batch_id": NUMBER_MAX, "on_invalid": "reject", "retry_timeout": 1.5},
    ),
    (
        "messagedb",
        {
            "url": DATABASE.replace("postgresql://", "postgresql+psycopg://") + "\n",
            "category": "account, payment,account",
            "startingOffsets": '{"account": {"from": 3, "next": 17}, "payment": -2}',
            "endingOffsets": '{"account": 20, "payment": -1}',
            "maxEventsPerTrigger": "1000",
            "minPartitions": "8",
            "schema": "events",
            "retryTimeout": "1.5 seconds",
        },
        {
            "url": DATABASE,
            "categories": ("account", "payment"),
            "starting_offsets": {"account": 17, "payment": EARLIEST},
            "ending_offsets": {"account": 20, "payment": LATEST},
            "max_events_per_trigger": 1000,
            "min_partitions": 8,
            "schema": "events",
            "retry_timeout": 1.5,
        },
    ),
    (
        "zeroeventhub",
        {
            "partitionCount": "4",
            "version": "1",
            "startingCursors": '{"0": "a7", "3": "_last"}',
            "landingLocation": "/var/landing",
            "maxEventsPerTrigger": "1000",
            "pageSizeHint": "50",
            "eventTypes": "placed, paid",
            "includeHeaders": "true",
            "headers": "ce_id,ce_time",
            "tokenFile": "/run/token",
            "failOnDataLoss": "false",
            "retryTimeout": "1.5 seconds",
        },
        {
            "partition_count": 4,
            "version": 1,
            "starting_cursors": {0: "a7", 3: "_last"},
            "landing_location": "/var/landing",
            "max_events_per_trigger": 1000,
            "page_size_hint": 50,
            "event_types": ("placed", "paid"),
            "include_headers": True,
            "headers": ("ce_id", "ce_time"),
            "authorization_file": "/run/token",
            "fail_on_data_loss": False,
            "retry_timeout": 1.5,
        },
    ),
    ("zeroeventhub", {"includeHeaders": "true"}, {"headers": (ALL_HEADERS,)}),
    ("zeroeventhub", {"includeHeaders": "false"}, {"headers": (), "include_headers": False}),
    (
        "zeroeventhub",
        {"startingCursors": '{"0": {"page": 3, "number": 7, "cursor": "a7"}}'},
        {"starting_cursors": {0: "a7"}},
    ),
    ("zeroeventhub", {"startingCursors": "_last"}, {"starting_cursors": "_last"}),
    ("zeroeventhub", {"startingCursors": " _first "}, {"starting_cursors": "_first"}),
    (
        "nakadi",
        {
            "maxEventsPerTrigger": "1000",
            "batchLimit": "50",
            "commitTimeout": "30 seconds",
            "tokenFile": "/run/token",
            "failOnDataLoss": "false",
            "retryTimeout": "1.5 seconds",
        },
        {
            "max_events_per_trigger": 1000,
            "batch_limit": 50,
            "commit_timeout": 30,
            "authorization_file": "/run/token",
            "fail_on_data_loss": False,
            "retry_timeout": 1.5,
        },
    ),
    ("nakadi", {"landingLocation": "file:/var/landing"}, {"landing_location": "file:/var/landing"}),
    ("nakadi", {"landingLocation": "s3a://lake/landing"}, {"landing_location": "s3a://lake/landing"}),
]


@pytest.mark.parametrize(("way", "given", "attributes"), OPTIONS)
def test_options_are_read_under_names_in_any_case(way: str, given: dict[str, str], attributes: dict[str, Any]) -> None:
    options = parse_with(way, **given)

    assert {name: getattr(options, name) for name in attributes} == attributes
    in_capitals = {name.upper(): value for name, value in (WAYS[way].least | given).items()}
    assert WAYS[way].parse(in_capitals) == options
    assert pickle.loads(pickle.dumps(options)) == options


@every_way
@pytest.mark.parametrize("name", ["path", "paths", "serialization.format", "__streaming_source_name", "spark.x"])
def test_options_of_spark_itself_are_ignored(way: str, name: str) -> None:
    assert parse_with(way, **{name: "x"}) == WAYS[way].value


SHARED: Final = {
    "maxEventsPerTrigger": ("0", "a whole number, 1 or more"),
    "minEventsPerTrigger": ("many", "a whole number, 1 or more"),
    "minPartitions": ("-1", "a whole number, 1 or more"),
    "partitionCount": ("0", "a whole number, 1 or more"),
    "pageSizeHint": ("many", "a whole number, 1 or more"),
    "batchLimit": ("many", "a whole number, 1 or more"),
    "splitPartitions": ("1", "true or false"),
    "failOnDataLoss": ("no", "true or false"),
    "includeHeaders": ("all", "true or false"),
    "maxTriggerDelay": ("nan", "a duration such as"),
    "retryTimeout": ("-1", "a duration such as"),
    "tokenFile": ("", "a file that can be read, with a token"),
}
"""What is wrong for an option wherever there is one of the name, and what it may be."""
WRONG: Final = [
    *((way, name, *SHARED[name]) for way, (_, names, *_) in WAYS.items() for name in names if name in SHARED),
    *(
        ("penstock", name, value, allowed)
        for name, allowed, values in [
            (
                "url",
                "the hub's address",
                ["localhost:8080", "ftp://host", "http://", "http://host:port", "http://host/?x=1"],
            ),
            ("eventType", "the name of an event type", ["", "a,,b"]),
            (
                "startingOffsets",
                "earliest, latest, a time such as 2026",
                [
                    "newest",
                    "[1]",
                    '{"order.placed": 7}',
                    '{"order.placed": {"0": "7"}}',
                    '{"order.placed": {"0": true}}',
                    '{"order.placed": {"0": -3}}',
                    '{"order.placed": {"00": 3}}',
                    *("2026-11-20", "2026-13-20T10:00:00Z", "2026-11-20T10:00:00"),
                    *(f'{{"order.placed": "{at}"}}' for at in ("2026-11-20", "2026-13-20T10:00:00Z")),
                ],
            ),
            ("startingOffsets", "an epoch of 1 or more", ['{"order.placed": {"epoch": 0}}']),
            ("startingOffsets", "event types that eventType names", ['{"another": {"0": 3}}']),
            ("endingOffsets", "latest, a time such as", ["earliest", '{"order.placed": {"0": -2}}']),
            ("payload", "json, typed, both", ["avro"]),
            ("consumerGroup", "printable characters of ASCII", ["ü"]),
            ("schemaVersion", "with payload=typed or both: JSON has no columns", ["1.0.0"]),
            ("schemaEvolution", "with payload=typed or both: JSON has no columns", ["latest"]),
        ]
        for value in values
    ),
    ("sink", "url", "localhost", "the hub's address"),
    ("sink", "eventType", "a,b", "the name of one event type"),
    ("sink", "eventType", " ", "the name of one event type"),
    ("sink", "producerGroup", "a b", ""),
    ("sink", "producerGroup", "..", ""),
    ("sink", "batchId", "-1", "a whole number from 0"),
    ("sink", "batchId", str(NUMBER_MAX + 1), "a whole number from 0"),
    ("sink", "batchId", "1", "beside producerGroup"),
    ("sink", "onInvalid", "skip", "fail, reject"),
    ("sink", "mode", "fast", "staged, direct"),
    ("messagedb", "category", "", "the name of a category"),
    ("messagedb", "category", "account,,payment", "the name of a category, or several separated by commas"),
    ("messagedb", "startingOffsets", "soon", "earliest, latest, JSON such as"),
    ("messagedb", "startingOffsets", "[17]", "earliest, latest, JSON such as"),
    ("messagedb", "startingOffsets", '{"account": "17"}', "earliest, latest, JSON such as"),
    ("messagedb", "startingOffsets", '{"account": {"next": true}}', "earliest, latest, JSON such as"),
    ("messagedb", "startingOffsets", '{"payment": 17}', "categories that category names; payment is none of them"),
    ("messagedb", "endingOffsets", "earliest", "latest, JSON such as"),
    ("messagedb", "endingOffsets", '{"account": -2}', "latest, JSON such as"),
    ("messagedb", "schema", " ", "the name of the schema in which MessageDB is installed"),
    ("zeroeventhub", "url", "", "the feed's address, such as http"),
    ("zeroeventhub", "url", "shop/feed", "the feed's address, such as http://shop/feed"),
    ("zeroeventhub", "url", "http://shop/feed#top", "the feed's address"),
    ("zeroeventhub", "partitionCount", "40000", "a whole number, 1 to 32768"),
    ("zeroeventhub", "version", "3", "1 (ZeroEventHub) or 2 (FeedAPI)"),
    ("zeroeventhub", "startingCursors", "earliest", "_first, _last, or JSON such as"),
    ("zeroeventhub", "startingCursors", "{}", "_first, _last, or JSON such as"),
    ("zeroeventhub", "startingCursors", '["a7"]', "_first, _last, or JSON such as"),
    ("zeroeventhub", "startingCursors", '{"0": 7}', "_first, _last, or JSON such as"),
    ("zeroeventhub", "startingCursors", '{"0": {"page": 1}}', "_first, _last, or JSON such as"),
    ("zeroeventhub", "startingCursors", '{"-1": "a7"}', "_first, _last, or JSON such as"),
    ("zeroeventhub", "landingLocation", " ", "a path that driver and executors reach"),
    ("zeroeventhub", "eventTypes", "placed,,paid", "a name, or several"),
    ("zeroeventhub", "eventTypes", "placed;paid", "a name, or several"),
    ("zeroeventhub", "headers", "ce_id", "beside includeHeaders=true alone"),
    ("nakadi", "url", "nakadi", "the address of a Nakadi server, such as"),
    ("nakadi", "subscription", " ", "the id of a subscription; or owning"),
    ("nakadi", "subscription", "a/b", "the id of a subscription"),
    ("nakadi", "eventType", "a.b", "without subscription"),
    ("nakadi", "landingLocation", "", "a directory that the driver and all"),
    ("nakadi", "landingLocation", "landing", "or a whole path on this machine"),
    ("nakadi", "commitTimeout", "0", "whole seconds, 1 or more"),
]


@pytest.mark.parametrize(("way", "name", "value", "allowed"), WRONG)
def test_wrong_option_is_refused_with_its_name_and_the_allowed_values(
    way: str, name: str, value: str, allowed: str
) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_with(way, **{name: value})

    assert str(refused.value).startswith(f"option {name} is ")
    assert refused.value.parameter == name
    assert refused.value.allowed
    assert allowed in str(refused.value.allowed)


@pytest.mark.parametrize(
    ("way", "given", "message"),
    [
        ("penstock", {"url": "localhost:1"}, "option url is 'localhost:1'; allowed: the hub's address, such as http"),
        ("penstock", {"startingOffsets": "latest", "endingOffsets": "latest"}, "which cannot begin at startingOffsets"),
        (
            "penstock",
            {"startingOffsets": "latest", "endingOffsets": '{"order.placed": {"0": 20}}'},
            "which cannot begin at startingOffsets=latest",
        ),
        (
            "penstock",
            {
                "startingOffsets": '{"order.placed": {"0": 20, "1": 3}}',
                "endingOffsets": '{"order.placed": {"0": 19}}',
            },
            "option endingOffsets is 19; allowed: for partition 0 of 'order.placed', 20 or more",
        ),
        *(
            ("penstock", {"payload": "typed", "schemaVersion": version}, "option schemaVersion is")
            for version in ["1", "newest", "{", '{"b": "1.0.0"}', '{"order.placed": 1}', '["1.0.0"]']
        ),
        ("penstock", {"payload": "typed", "schemaEvolution": "new"}, "option schemaEvolution is 'new'; allowed: "),
        ("sink", {"mode": "direct", "onInvalid": "reject"}, "onInvalid is 'reject'; allowed: fail in mode direct"),
        ("messagedb", {"category": "account-7"}, "is 'account-7'; allowed: what stands before the first - of a stream"),
        (
            "messagedb",
            {"startingOffsets": '{"account": 17}', "endingOffsets": '{"account": 5}'},
            "option endingOffsets is 5; allowed: for 'account', 17 or more",
        ),
        ("messagedb", {"startingOffsets": "latest", "endingOffsets": "latest"}, "cannot begin at startingOffsets=late"),
        ("zeroeventhub", {"version": "1"}, "option partitionCount is missing; allowed: the number of partitions that"),
        ("nakadi", {"maxEventsPerTrigger": "10"}, "option batchLimit is 500; allowed: up to 10, which is maxEventsPer"),
    ],
)
def test_options_that_contradict_each_other_are_refused(way: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_with(way, **given)

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("starting", "ending"),
    [
        ("earliest", '{"order.placed": {"0": 0}}'),
        ('{"order.placed": {"0": 20}}', '{"order.placed": {"0": 20, "1": 3}}'),
        ('{"order.placed": {"0": -1}}', '{"order.placed": {"0": 5}}'),
        ('{"order.placed": {"0": 20}}', '{"order.placed": {"0": -1}}'),
    ],
)
def test_offsets_that_depend_on_the_feed_are_accepted(starting: str, ending: str) -> None:
    assert parse_with("penstock", startingOffsets=starting, endingOffsets=ending)


@pytest.mark.parametrize(
    ("way", "name"),
    [
        *(("penstock", name) for name in ("eventTypes", "startingOffset", "consumerGroupId")),
        *(("sink", name) for name in ("startingOffsets", "consumerGroup", "path-")),
        ("messagedb", "consumerGroup"),
        ("zeroeventhub", "eventType"),
        ("nakadi", "startingOffsets"),
    ],
)
def test_unknown_option_is_refused_with_those_that_there_are(way: str, name: str) -> None:
    with pytest.raises(BadParameter, match=f"there is no option '{name}' .*{', '.join(WAYS[way].names)}"):
        parse_with(way, **{name: "x"})


@pytest.mark.parametrize(
    ("way", "url"),
    [
        *((way, "http://user:geheim@host") for way in WAYS),
        ("messagedb", "host=localhost password=geheim"),
        ("messagedb", "postgresql://reader:geheim@[::1/events"),
        ("messagedb", "postgresql://reader:geheim%zz@localhost/events"),
        ("messagedb", "postgresql://reader@localhost/events?passwort=geheim"),
    ],
)
def test_wrong_url_with_a_password_is_refused_and_not_shown(way: str, url: str) -> None:
    with pytest.raises(BadParameter, match=r"option url is '\(not shown\)'; allowed: ") as refused:
        parse_with(way, url=url)

    assert "geheim" not in f"{refused.value} {refused.value.fields} {refused.value.__cause__}"
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_options_of_a_database_do_not_show_its_password() -> None:
    assert "geheim" not in repr(parse_with("messagedb"))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"mode": "Direct", "producerGroup": "g", "batchId": "7", "retryTimeout": "0"},
        {"token": "t"},
        {"tokenFile": "/t"},
    ],
)
def test_options_of_the_sink_are_given_again_as_they_were_read(given: dict[str, str]) -> None:
    options = parse_with("sink", **given)
    assert parse_sink_options(as_given(options)) == options


@pytest.mark.parametrize(
    ("asked", "start"),
    [("earliest", 1), ("latest", 100), ('{"account": 17}', 17), ('{"account": -1}', 100), ("{}", 1)],
)
def test_messagedb_query_begins_at_its_starting_offset(asked: str, start: int) -> None:
    assert messagedb.start_of(parse_with("messagedb", startingOffsets=asked), "account", 100) == start


@pytest.mark.parametrize(
    ("asked", "end"), [("latest", 100), ('{"account": 17}', 17), ('{"account": 170}', 100), ("{}", 100)]
)
def test_messagedb_batch_ends_at_its_ending_offset_or_the_category_end(asked: str, end: int) -> None:
    assert messagedb.end_of(parse_with("messagedb", endingOffsets=asked), "account", 100) == end


def test_pages_are_asked_for_with_headers_and_event_types_of_the_options() -> None:
    options = parse_with("zeroeventhub", includeHeaders="true", headers="ce_id", eventTypes="placed,paid")

    assert options.wish(20) == ReadParameters(page_size_hint=20, headers=("ce_id",), event_types=("placed", "paid"))


def test_subscription_may_be_defined_by_owner_event_types_and_group() -> None:
    options = nakadi.parse_subscription_options(DEFINED | {"consumerGroup": "x", "readFrom": "end"})

    assert isinstance(options.subscription, nakadi.WantedSubscription)
    assert options.subscription.members() == {
        "owning_application": "lake",
        "event_types": ["a.b", "c.d"],
        "consumer_group": "x",
        "read_from": "end",
    }
    assert nakadi.parse_subscription_options(DEFINED).subscription == nakadi.WantedSubscription(
        owning_application="lake", event_types=("a.b", "c.d"), consumer_group="default", read_from="begin"
    )


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("readFrom", "cursors", "begin, end"),
        ("eventType", "a.b,,c", "the name of an event type"),
        ("owningApplication", "", "the application that owns"),
        ("consumerGroup", "", "the consumer group"),
    ],
)
def test_wrong_definition_of_a_subscription_is_refused(name: str, value: str, allowed: str) -> None:
    with pytest.raises(BadParameter, match=f"option {name} is '{value}'; allowed: {allowed}"):
        nakadi.parse_subscription_options(DEFINED | {name: value})
