import dataclasses

import pytest

from penstock.errors import BadParameter
from penstock.spark.options import EARLIEST, LATEST, AskedOffsets, AskedTime, SourceOptions, parse_options

LEAST = {"url": "http://localhost:8080", "eventType": "order.placed"}


def parse_with(**given: str) -> SourceOptions:
    return parse_options(LEAST | given)


def test_url_and_event_type_are_enough() -> None:
    options = parse_options(LEAST)

    assert options == SourceOptions(url="http://localhost:8080", event_types=("order.placed",))


def test_names_may_be_in_any_case() -> None:
    options = parse_options(
        {"URL": "http://h/", "eventtype": "a", "MAXEVENTSPERTRIGGER": "7", "FailOnDataLoss": "FALSE"}
    )

    assert (options.max_events_per_trigger, options.fail_on_data_loss) == (7, False)


def test_a_slash_at_the_end_of_the_url_makes_no_difference() -> None:
    assert parse_with(url="https://host/events/").url == "https://host/events"


def test_several_event_types_are_separated_by_commas_and_taken_once_each() -> None:
    assert parse_with(eventType="a, b,a").event_types == ("a", "b")


def test_all_options_are_read() -> None:
    options = parse_with(
        startingOffsets='{"order.placed": {"epoch": 2, "0": 17, "1": -2, "3": -1, "from": {"0": 1}}}',
        endingOffsets='{"order.placed": {"0": 20}}',
        maxEventsPerTrigger="1000",
        minPartitions="8",
        failOnDataLoss="false",
        includeHeaders="true",
        retryTimeout="1.5 seconds",
    )

    assert options.starting_offsets == {"order.placed": AskedOffsets(2, {0: 17, 1: EARLIEST, 3: LATEST})}
    assert options.ending_offsets == {"order.placed": AskedOffsets(None, {0: 20})}
    assert (options.max_events_per_trigger, options.min_partitions) == (1000, 8)
    assert (options.fail_on_data_loss, options.include_headers, options.retry_timeout) == (False, True, 1.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "localhost:8080"),
        ("url", "ftp://host"),
        ("url", "http://"),
        ("url", "http://host:port"),
        ("url", "http://host/?x=1"),
        ("eventType", ""),
        ("eventType", "a,,b"),
        ("startingOffsets", "newest"),
        ("startingOffsets", "[1]"),
        ("startingOffsets", '{"order.placed": 7}'),
        ("startingOffsets", '{"order.placed": {"0": "7"}}'),
        ("startingOffsets", '{"order.placed": {"0": true}}'),
        ("startingOffsets", '{"order.placed": {"0": -3}}'),
        ("startingOffsets", '{"order.placed": {"00": 3}}'),
        ("startingOffsets", '{"order.placed": {"epoch": 0}}'),
        ("startingOffsets", '{"another": {"0": 3}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"order.placed": {"0": -2}}'),
        ("maxEventsPerTrigger", "0"),
        ("maxEventsPerTrigger", "many"),
        ("minPartitions", "-1"),
        ("failOnDataLoss", "no"),
        ("includeHeaders", "1"),
        ("retryTimeout", "-1"),
        ("retryTimeout", "nan"),
    ],
)
def test_reader_option_is_refused_with_its_name_and_the_allowed_values(name: str, value: str) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_with(**{name: value})

    assert str(refused.value).startswith(f"option {name} is ")
    assert refused.value.parameter == name
    assert refused.value.allowed


def test_url_without_a_scheme_is_refused_with_a_suggestion() -> None:
    with pytest.raises(BadParameter, match=r"option url is 'localhost:1'; allowed: .*, such as http://localhost:1$"):
        parse_with(url="localhost:1")


@pytest.mark.parametrize(
    ("starting", "ending"),
    [
        ("latest", "latest"),
        ("latest", '{"order.placed": {"0": 20}}'),
        ('{"order.placed": {"0": 20, "1": 3}}', '{"order.placed": {"0": 19}}'),
    ],
)
def test_offsets_that_contradict_each_other_are_refused(starting: str, ending: str) -> None:
    with pytest.raises(BadParameter, match="option endingOffsets is "):
        parse_with(startingOffsets=starting, endingOffsets=ending)


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
    assert parse_with(startingOffsets=starting, endingOffsets=ending)


@pytest.mark.parametrize("name", ["eventTypes", "startingOffset", "consumerGroupId"])
def test_an_unknown_option_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(BadParameter, match=f"there is no option '{name}' .*startingOffsets"):
        parse_with(**{name: "x"})


def test_every_option_but_url_and_event_type_has_a_default() -> None:
    needed = [
        field.name
        for field in dataclasses.fields(SourceOptions)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]

    assert needed == ["url", "event_types"]


def test_a_beginning_and_an_end_may_be_times() -> None:
    options = parse_with(
        startingOffsets="2026-11-20T10:00:00Z", endingOffsets='{"order.placed": "2026-11-21T10:00:00+01:00"}'
    )

    assert options.starting_offsets == AskedTime("2026-11-20T10:00:00Z")
    assert options.ending_offsets == {"order.placed": AskedTime("2026-11-21T10:00:00+01:00")}


@pytest.mark.parametrize("time", ["2026-11-20", "2026-13-20T10:00:00Z", "2026-11-20T10:00:00"])
def test_starting_time_without_a_zone_or_of_another_format_is_refused(time: str) -> None:
    with pytest.raises(BadParameter, match=r"option startingOffsets is .* a time such as 2026"):
        parse_with(startingOffsets=time)
    with pytest.raises(BadParameter, match=r"option startingOffsets is .* a time such as 2026"):
        parse_with(startingOffsets=f'{{"order.placed": "{time}"}}')


def test_starting_offsets_may_be_copied_from_a_checkpoint() -> None:
    kept = '{"order.placed": {"epoch": 1, "0": 5, "schema": "1.0.0", "reset": 2, "from": {"epoch": 1, "0": 0}}}'

    assert parse_with(startingOffsets=kept).starting_offsets == {"order.placed": AskedOffsets(1, {0: 5})}


def test_typed_events_are_asked_for_with_the_versions_of_their_schemas() -> None:
    assert parse_with().payload == "json"
    options = parse_with(payload="Typed", schemaEvolution="latest", schemaVersion="1.2.0", eventType="a,b")
    assert (options.payload, options.schema_evolution) == ("typed", "latest")
    assert options.schema_versions == {"a": "1.2.0", "b": "1.2.0"}
    some = parse_with(payload="both", schemaVersion='{"a": "1.2.0", "b": "latest"}', eventType="a,b")
    assert some.schema_versions == {"a": "1.2.0"}


@pytest.mark.parametrize("version", ["1", "newest", "{", '{"b": "1.0.0"}', '{"order.placed": 1}', '["1.0.0"]'])
def test_malformed_schema_version_is_refused(version: str) -> None:
    with pytest.raises(BadParameter, match="option schemaVersion is"):
        parse_with(payload="typed", schemaVersion=version)


@pytest.mark.parametrize("name", ["schemaVersion", "schemaEvolution"])
def test_schema_options_without_typed_payload_are_refused(name: str) -> None:
    given = {"schemaVersion": "1.0.0", "schemaEvolution": "latest"}[name]
    with pytest.raises(BadParameter, match=f"option {name} is .*JSON has no columns"):
        parse_with(**{name: given})


@pytest.mark.parametrize(("name", "value"), [("payload", "avro"), ("schemaEvolution", "new"), ("consumerGroup", "ü")])
def test_unknown_word_for_an_option_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadParameter, match=f"option {name} is '{value}'; allowed: "):
        parse_with(**({"payload": "typed"} | {name: value}))
