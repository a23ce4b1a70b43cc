"""Event types as a client defines, changes and shows them: the requests, the repetitions and the refusals."""

import inspect
import logging
from dataclasses import fields
from typing import Any

import pytest

from penstock.client import AsyncClient, AsyncFeed, Client, Feed
from penstock.client.log.following import FOLLOW_WAIT_SECONDS
from penstock.client.registry import EventTypeOptions, EventTypeProtocol, PartitionOffsets, make_definition
from penstock.errors import (
    InvalidEventType,
)
from penstock.wire.log.reader.protocol import ReadParameters
from tests.unit.client.answers import answer
from tests.unit.wire.script import Reply, Script

EMPTY_SCHEMA = {"type": "json_schema", "schema": "{}"}
DEFAULTS = {
    "name": "x",
    "category": "undefined",
    "owning_application": "",
    "enrichment_strategies": [],
    "schema": EMPTY_SCHEMA,
}


def event_types(script: Script) -> EventTypeProtocol:
    return EventTypeProtocol("http://s/", retry_timeout=30.0, clock=script.clock)


def requests(script: Script) -> list[tuple[str, str, bytes | None]]:
    return [(each.method, url, each.body) for each, url in zip(script.requests, script.urls, strict=True)]


@pytest.mark.parametrize(
    ("traits", "changed"),
    [
        ({}, {}),
        ({"category": "business"}, {"category": "business", "enrichment_strategies": ["metadata_enrichment"]}),
        ({"partition_strategy": "hash", "partition_key_fields": ["id"]},) * 2,
        ({"labels": {"team": "shop"}, "audience": "business-unit-internal"},) * 2,
        ({"more": {"colour": "red"}}, {"colour": "red"}),
        ({"schema": {"required": ["a"]}}, {"schema": {"type": "json_schema", "schema": '{"required":["a"]}'}}),
        ({"schema": "{}"}, {}),
        ({"schema": EMPTY_SCHEMA}, {}),
    ],
    ids=str,
)
def test_definition_completes_the_traits_with_defaults(traits: Any, changed: dict[str, Any]) -> None:
    assert make_definition("x", traits) == DEFAULTS | changed


@pytest.mark.parametrize(
    ("trait", "hint"),
    [
        ("partition_cuont", "did you mean 'partition_count"),
        ("catgory", "did you mean 'category"),
        ("label", "did you mean 'labels"),
        ("partitions", "did you mean 'partition"),
        ("zz", r"Any other members are given with more=\{"),
    ],
)
def test_definition_with_an_unknown_trait_is_refused_with_a_hint(trait: str, hint: str) -> None:
    with pytest.raises(TypeError, match=f"an event type has no '{trait}'; {hint}"):
        make_definition("x", {trait: 4})  # type: ignore[misc]


def test_reordering_is_allowed_only_where_that_is_asked_for() -> None:
    script = Script(Reply(200), Reply(200), Reply(204), Reply(204))
    known = event_types(script)

    for change in (known.replace, known.check):
        for allows in (False, True):
            script.play(change({"name": "a"}, allow_reordering=allows))

    assert [url.partition("?")[2] for url in script.urls] == ["", "allow_reordering=true"] * 2


def test_warnings_of_the_hub_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    warning = '299 penstock "a: authorization has no effect yet", 299 penstock "SHOULD x: y, z", 110 - "stale"'
    script = Script(Reply(201, headers={"warning": warning}))

    with caplog.at_level(logging.INFO, "penstock.client"):
        script.play(event_types(script).create({"name": "a"}))

    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "a: authorization has no effect yet"),
        ("INFO", "SHOULD x: y, z"),
    ]


def test_partitions_show_their_offsets_in_numeric_order() -> None:
    rows = [
        {
            "partition": str(number),
            "oldest_available_offset": "001-0002-000000000000000003",
            "newest_available_offset": "001-0002--1" if number == 2 else "001-0002-000000000000000041",
        }
        for number in (10, 2)
    ]
    script = Script(answer(rows))

    offsets = script.play(event_types(script).partitions("a"))

    assert offsets == [PartitionOffsets(2, 2, 3, -1), PartitionOffsets(10, 2, 3, 41)]
    assert [each.head for each in offsets] == [0, 42]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "is missing"),
        ({"name": None}, "is missing"),
        ({"name": ""}, 'not ""'),
        ({"name": "a/b"}, 'not "a/b"'),
        ({"name": 7}, "not 7"),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["check", "replace"])
def test_definition_without_a_usable_name_is_not_sent(given: dict[str, Any], reason: str, method: str) -> None:
    script = Script()
    with pytest.raises(InvalidEventType, match=f'Field "name" .*{reason}') as refused:
        script.play(getattr(event_types(script), method)(given))

    assert (refused.value.field, script.requests) == ("name", [])


def test_category_is_asked_for_again_after_a_replacement() -> None:
    script = Script(answer({"category": "undefined"}), Reply(200), answer({"category": "business"}))
    known = event_types(script)

    assert script.play(known.category("a")) == "undefined"
    script.play(known.replace({"name": "a"}))
    assert script.play(known.category("a")) == "business"


def test_compatibility_check_returns_changes_and_reasons() -> None:
    change = {"pointer": "#/a", "rule": "title", "says": "the title differs", "level": "PATCH", "refused": False}
    change |= {"old": "a", "new": None, "instead": "", "producers": True, "consumers": True}
    shown = {
        "compatible": True,
        "compatibility_mode": "forward",
        "validated_against_version": "1.0.0",
        "version": "1.0.1",
        "producers": True,
        "consumers": True,
    }
    script = Script(answer(shown | {"changes": [change]}), answer(shown | {"compatible": False, "error": "no"}))
    known = event_types(script)

    found, refused = (script.play(known.check_compatibility("a", "{}", version)) for version in ("latest", "1.0.0"))

    assert (found.version, found.error, found.changes[0].rule, found.changes[0].old) == ("1.0.1", None, "title", "a")
    assert (refused.compatible, refused.error, refused.changes) == (False, "no", [])
    assert requests(script) == [
        ("POST", f"/event-types/a/schemas/{version}/compatibility-check", b'{"schema":"{}"}')
        for version in ("latest", "1.0.0")
    ]


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_client_has_a_parameter_for_each_member_of_a_definition(client: type[Any]) -> None:
    parameters = inspect.signature(client.create_event_type).parameters

    assert parameters.keys() - {"self", "name"} == EventTypeOptions.__annotations__.keys()
    assert {each.default for each in parameters.values()} == {None, inspect.Parameter.empty}


@pytest.mark.parametrize("feed", [Feed, AsyncFeed])
def test_reads_of_a_feed_have_a_parameter_for_each_option(feed: type[Any]) -> None:
    options = {each.name: each.default for each in fields(ReadParameters)}
    without = {"resume": {"until", "cursor_set"}, "follow": {"until"}, "read": set()}

    for method, missing in without.items():
        given = inspect.signature(getattr(feed, method)).parameters
        found = {name: given[name].default for name in options.keys() & given.keys() if name not in missing}
        waits = {"wait_seconds": FOLLOW_WAIT_SECONDS} if method == "follow" else {}
        assert found == {name: default for name, default in options.items() if name not in missing} | waits
