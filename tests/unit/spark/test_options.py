"""The options of all sources and of the sink: Spark's strings in, one value out."""

import pickle
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from penstock.errors import BadParameter
from penstock.spark.foreign.messagedb import CategoryQuery
from penstock.spark.foreign.nakadi import SubscriptionQuery
from penstock.spark.foreign.query import option_names, parse_query
from penstock.spark.foreign.zeroeventhub import FeedQuery
from penstock.spark.options import EARLIEST, LATEST, NAMES, AskedOffsets, AskedTime, SourceOptions, parse_options
from penstock.spark.sink_options import SINK_NAMES, SinkOptions, parse_sink_options
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
TIME: Final = "2026-11-21T10:00:00+01:00"
SHOP: Final = "http://shop.example/feed?tenant=7"
WAYS: Final = {
    "penstock": Way(parse_options, NAMES, FEED, SourceOptions(url=HUB, event_types=("order.placed",))),
    "sink": Way(parse_sink_options, SINK_NAMES, FEED, SinkOptions(url=HUB, event_type="order.placed")),
    "messagedb": Way(
        partial(parse_query, CategoryQuery),
        option_names(CategoryQuery),
        {"url": DATABASE, "category": "account"},
        CategoryQuery(url=DATABASE, category=("account",)),
    ),
    "zeroeventhub": Way(partial(parse_query, FeedQuery), option_names(FeedQuery), {"url": SHOP}, FeedQuery(url=SHOP)),
    "nakadi": Way(
        partial(parse_query, SubscriptionQuery),
        option_names(SubscriptionQuery),
        {"url": f"{HUB}/", "subscription": "5b6f9a3c", "landingLocation": "/var/landing"},
        SubscriptionQuery(url=HUB, subscription="5b6f9a3c", landing_location="/var/landing"),
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


class Shared(NamedTuple):
    """An option that means the same wherever there is one of its name."""

    attribute: str
    text: str
    value: Any
    wrong: str
    allowed: str


WHOLE: Final = "a whole number, 1 or more"
SHARED: Final = {
    "maxEventsPerTrigger": Shared("max_events_per_trigger", "1000", 1000, "0", WHOLE),
    "minEventsPerTrigger": Shared("min_events_per_trigger", "10", 10, "many", WHOLE),
    "maxTriggerDelay": Shared("max_trigger_delay", "5m", 300.0, "nan", "a duration such as"),
    "minPartitions": Shared("min_partitions", "8", 8, "-1", WHOLE),
    "splitPartitions": Shared("split_partitions", "false", False, "1", "true or false"),
    "partitionCount": Shared("partition_count", "4", 4, "0", WHOLE),
    "pageSizeHint": Shared("page_size_hint", "50", 50, "many", WHOLE),
    "batchLimit": Shared("batch_limit", "50", 50, "many", WHOLE),
    "failOnDataLoss": Shared("fail_on_data_loss", "FALSE", False, "no", "true or false"),
    "includeHeaders": Shared("include_headers", "true", True, "all", "true or false"),
    "commitTimeout": Shared("commit_timeout", "30 seconds", 30, "0", "whole seconds, 1 or more"),
    "retryTimeout": Shared("retry_timeout", "1.5 seconds", 1.5, "-1", "a duration such as"),
}
shared_options: Final = pytest.mark.parametrize(
    ("way", "name"), [(way, name) for way, (_, names, *_) in WAYS.items() for name in names if name in SHARED]
)
TYPED: Final = {"payload": "Typed", "schemaEvolution": "latest", "schemaVersion": "1.2.0", "eventType": "a,b"}
BOTH: Final = {"payload": "both", "schemaVersion": '{"a": "1.2.0", "b": "latest"}', "eventType": "a,b"}
BATCH: Final = {"producerGroup": "nightly", "batchId": str(NUMBER_MAX), "onInvalid": "Reject"}
NAMED: Final = {"includeHeaders": "true", "headers": "ce_id,ce_time"}
TWO: Final = {"category": "account, payment,account"}
ASKED: Final = '{"order.placed": {"epoch": 2, "0": 17, "1": -2, "3": -1, "from": {"0": 1}}}'
KEPT: Final = '{"order.placed": {"epoch": 1, "0": 5, "schema": "1.0.0", "reset": 2, "from": {"epoch": 1, "0": 0}}}'


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"startingOffsets": "1h"}, lambda options: options.starting_offsets),
        ({"endingOffsets": "1 hour"}, lambda options: options.ending_offsets),
        ({"startingOffsets": '{"order.placed": "60m"}'}, lambda options: options.starting_offsets["order.placed"]),
    ],
    ids=["start", "end", "of one event type"],
)
def test_duration_in_offsets_is_the_time_so_long_ago(given: dict[str, str], read: Any) -> None:
    began = datetime.now(UTC)
    found = datetime.fromisoformat(read(parse_with("penstock", **given)).text)

    assert began - timedelta(hours=1) <= found <= datetime.now(UTC) - timedelta(hours=1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("startingOffsets", text) for text in ("begin", "_first", "17", '{"order.placed": "latest"}', "[]")),
        *(("endingOffsets", text) for text in ("earliest", "end", "2026-11-20")),
    ],
)
def test_offsets_that_are_none_are_refused_with_those_that_are(name: str, text: str) -> None:
    first = "earliest, latest" if name == "startingOffsets" else "latest"
    allowed = f"allowed: {first}, a time such as 2026-11-20T10:00:00Z, or a duration ago such as 1h, or JSON"

    with pytest.raises(BadParameter, match=allowed):
        parse_with("penstock", **{name: text})


@shared_options
def test_option_of_several_sources_is_read_and_refused_alike(way: str, name: str) -> None:
    option = SHARED[name]
    assert getattr(parse_with(way, **{name: option.text}), option.attribute) == option.value
    with pytest.raises(BadParameter, match=f"option {name} is '{option.wrong}'; allowed: {option.allowed}"):
        parse_with(way, **{name: option.wrong})


@pytest.mark.parametrize(
    ("way", "given", "attribute", "value"),
    [
        ("penstock", {"url": "https://host/events/"}, "url", "https://host/events"),
        ("penstock", {"eventType": "a, b,a"}, "event_types", ("a", "b")),
        (
            "penstock",
            {"startingOffsets": ASKED},
            "starting_offsets",
            {"order.placed": AskedOffsets(2, {0: 17, 1: EARLIEST, 3: LATEST})},
        ),
        ("penstock", {"startingOffsets": KEPT}, "starting_offsets", {"order.placed": AskedOffsets(1, {0: 5})}),
        ("penstock", {"startingOffsets": TIME}, "starting_offsets", AskedTime(TIME)),
        (
            "penstock",
            {"endingOffsets": '{"order.placed": {"0": 20}}'},
            "ending_offsets",
            {"order.placed": AskedOffsets(None, {0: 20})},
        ),
        (
            "penstock",
            {"endingOffsets": f'{{"order.placed": "{TIME}"}}'},
            "ending_offsets",
            {"order.placed": AskedTime(TIME)},
        ),
        ("penstock", {}, "payload", "json"),
        ("penstock", TYPED, "payload", "typed"),
        ("penstock", TYPED, "schema_evolution", "latest"),
        ("penstock", TYPED, "schema_versions", {"a": "1.2.0", "b": "1.2.0"}),
        ("penstock", BOTH, "schema_versions", {"a": "1.2.0"}),
        ("sink", BATCH, "producer_group", "nightly"),
        ("sink", BATCH, "batch_id", NUMBER_MAX),
        ("sink", BATCH, "on_invalid", "reject"),
        ("sink", {"checkpointLocation": "/x", "queryName": "q"}, "producer_group", None),
        ("messagedb", {"url": DATABASE.replace("://", "+psycopg://") + "\n"}, "url", DATABASE),
        ("messagedb", TWO, "category", ("account", "payment")),
        (
            "messagedb",
            {**TWO, "startingOffsets": '{"account": {"from": 3, "next": 17}, "payment": -2}'},
            "starting_offsets",
            {"account": 17, "payment": EARLIEST},
        ),
        (
            "messagedb",
            {**TWO, "endingOffsets": '{"account": 20, "payment": -1}'},
            "ending_offsets",
            {"account": 20, "payment": LATEST},
        ),
        ("messagedb", {"schema": "events"}, "schema", "events"),
        ("zeroeventhub", {"partitionCount": "4", "version": "1"}, "version", 1),
        ("zeroeventhub", {"startingCursors": '{"0": "a7", "3": "_last"}'}, "starting_cursors", {0: "a7", 3: "_last"}),
        (
            "zeroeventhub",
            {"startingCursors": '{"0": {"page": 3, "number": 7, "cursor": "a7"}}'},
            "starting_cursors",
            {0: "a7"},
        ),
        ("zeroeventhub", {"startingCursors": "_last"}, "starting_cursors", "_last"),
        ("zeroeventhub", {"startingCursors": " _first "}, "starting_cursors", "_first"),
        ("zeroeventhub", {"landingLocation": "/var/landing"}, "landing_location", "/var/landing"),
        ("zeroeventhub", {"eventTypes": "placed, paid"}, "event_types", ("placed", "paid")),
        ("zeroeventhub", NAMED, "headers", ("ce_id", "ce_time")),
        ("zeroeventhub", {"includeHeaders": "true"}, "headers", None),
        ("zeroeventhub", {"tokenFile": "/run/token"}, "token_file", "/run/token"),
        ("nakadi", {"tokenFile": "/run/token"}, "token_file", "/run/token"),
        ("nakadi", {"landingLocation": "file:/var/landing"}, "landing_location", "file:/var/landing"),
        ("nakadi", {"landingLocation": "s3a://lake/landing"}, "landing_location", "s3a://lake/landing"),
    ],
)
def test_option_is_read_under_its_name_in_any_case(way: str, given: dict[str, str], attribute: str, value: Any) -> None:
    options = parse_with(way, **given)

    assert getattr(options, attribute) == value
    assert WAYS[way].parse({name.upper(): text for name, text in (WAYS[way].least | given).items()}) == options
    assert pickle.loads(pickle.dumps(options)) == options


@every_way
@pytest.mark.parametrize("name", ["path", "paths", "serialization.format", "__streaming_source_name", "spark.x"])
def test_options_of_spark_itself_are_ignored(way: str, name: str) -> None:
    assert parse_with(way, **{name: "x"}) == WAYS[way].value


WRONG: Final = [
    *((way, "tokenFile", "", "a file that can be read, with a token") for way in WAYS if way != "messagedb"),
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
    *(
        (way, "landingLocation", value, "a path that driver and executors reach")
        for way in ("zeroeventhub", "nakadi")
        for value in ("", "landing")
    ),
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
    ("asked", "start"),
    [("earliest", 1), ("latest", 100), ('{"account": 17}', 17), ('{"account": -1}', 100), ("{}", 1)],
)
def test_messagedb_query_begins_at_its_starting_offset(asked: str, start: int) -> None:
    assert parse_with("messagedb", startingOffsets=asked).find_start("account", 100) == start


@pytest.mark.parametrize(
    ("asked", "end"), [("latest", 100), ('{"account": 17}', 17), ('{"account": 170}', 100), ("{}", 100)]
)
def test_messagedb_batch_ends_at_its_ending_offset_or_the_category_end(asked: str, end: int) -> None:
    assert parse_with("messagedb", endingOffsets=asked).find_end("account", 100) == end


def test_pages_are_asked_for_with_headers_and_event_types_of_the_options() -> None:
    options = parse_with("zeroeventhub", includeHeaders="true", headers="ce_id", eventTypes="placed,paid")

    assert options.wish(20) == ReadParameters(page_size_hint=20, headers=("ce_id",), event_types=("placed", "paid"))
    assert parse_with("zeroeventhub", includeHeaders="true").wish(20).headers == (ALL_HEADERS,)
    assert parse_with("zeroeventhub").wish(20).headers == ()


def test_subscription_may_be_defined_by_owner_event_types_and_group() -> None:
    named = {"owning_application": "lake", "event_types": ["a.b", "c.d"]}
    chosen = parse_query(SubscriptionQuery, DEFINED | {"consumerGroup": "x", "readFrom": "end"})

    assert chosen.definition() == {**named, "consumer_group": "x", "read_from": "end"}
    assert parse_query(SubscriptionQuery, DEFINED).definition() == {
        **named, "consumer_group": "default", "read_from": "begin",
    }  # fmt: skip


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
        parse_query(SubscriptionQuery, DEFINED | {name: value})
