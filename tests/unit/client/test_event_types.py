import json
import logging
import re
from typing import Any

import pytest

from penstock.client.event_types import EventTypes, PartitionOffsets, definition, schema_text
from penstock.errors import (
    EventTypeExists,
    EventTypeNotFound,
    InvalidEventType,
    MalformedAnswer,
    ServerError,
    Unreachable,
    WrongAddress,
)
from tests.unit.wire.script import Reply, Script, problem


def event_types(script: Script) -> EventTypes:
    return EventTypes("http://s/", patience=30.0, clock=script.clock)


def shown(value: Any) -> Reply:
    return Reply(200, json.dumps(value).encode())


def test_an_event_type_is_created_in_nakadis_shape() -> None:
    script = Script(Reply(201))
    wanted = definition(
        "order.placed",
        {
            "category": "business",
            "partition_strategy": "hash",
            "partition_key_fields": ["order_id"],
            "schema": {"required": ["order_id"]},
            "more": {"compatibility_mode": "forward"},
        },
    )

    script.play(event_types(script).create(wanted))

    [request] = script.requests
    assert (request.method, request.url) == ("POST", "http://s/event-types")
    assert json.loads(request.body or b"") == {
        "name": "order.placed",
        "owning_application": "",
        "category": "business",
        "enrichment_strategies": ["metadata_enrichment"],
        "partition_strategy": "hash",
        "partition_key_fields": ["order_id"],
        "schema": {"type": "json_schema", "schema": '{"required":["order_id"]}'},
        "compatibility_mode": "forward",
    }


def test_reordering_is_allowed_by_a_parameter_and_only_where_that_is_said() -> None:
    script = Script(Reply(200), Reply(200), Reply(204), Reply(204))
    known = event_types(script)

    for allows in (False, True):
        script.play(known.replace({"name": "a"}, allow_reordering=allows))
    for allows in (False, True):
        script.play(known.check({"name": "a"}, allow_reordering=allows))

    assert [request.url.partition("?")[2] for request in script.requests] == ["", "allow_reordering=true"] * 2


def test_warnings_of_the_hub_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    told = '299 penstock "a: authorization has no effect yet", 299 penstock "SHOULD x: y, z", 110 - "stale"'
    script = Script(Reply(201, headers={"warning": told}))

    with caplog.at_level(logging.INFO, "penstock.client"):
        script.play(event_types(script).create({"name": "a"}))

    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "a: authorization has no effect yet"),
        ("INFO", "SHOULD x: y, z"),
    ]


def test_a_schema_can_be_given_as_text() -> None:
    assert definition("x", {"schema": "{}"})["schema"] == {"type": "json_schema", "schema": "{}"}


def test_what_exists_already_is_said_to() -> None:
    script = Script(problem(409, "event-type-exists"))

    with pytest.raises(EventTypeExists):
        script.play(event_types(script).create({"name": "x"}))


def test_event_types_are_listed_shown_and_deleted_by_name() -> None:
    script = Script(shown([{"name": "a"}]), shown({"name": "a.b"}), Reply(200))
    known = event_types(script)

    assert script.play(known.all()) == [{"name": "a"}]
    assert script.play(known.show("a.b")) == {"name": "a.b"}
    script.play(known.delete("a.b"))

    assert [(request.method, request.url) for request in script.requests] == [
        ("GET", "http://s/event-types"),
        ("GET", "http://s/event-types/a.b"),
        ("DELETE", "http://s/event-types/a.b"),
    ]


def test_partitions_show_their_offsets_in_order() -> None:
    rows = [
        {
            "partition": str(number),
            "oldest_available_offset": "001-0002-000000000000000003",
            "newest_available_offset": "001-0002--1" if number == 2 else "001-0002-000000000000000041",
        }
        for number in (10, 2)
    ]
    script = Script(shown(rows))

    offsets = script.play(event_types(script).partitions("a"))

    assert offsets == [PartitionOffsets(2, 2, 3, -1), PartitionOffsets(10, 2, 3, 41)]
    assert [each.head for each in offsets] == [0, 42]


def test_looking_is_repeated_and_changing_only_when_nothing_was_sent() -> None:
    away = Unreachable(url="u", reason="refused")
    script = Script(Reply(502, b""), shown([]), away, Reply(201), Reply(502, b""))
    known = event_types(script)

    assert script.play(known.all()) == []
    script.play(known.create({"name": "x"}))
    with pytest.raises(ServerError):
        script.play(known.delete("x"))
    assert script.replies == []


def test_a_missing_event_type_is_said_to_be_so() -> None:
    script = Script(problem(404, "event-type-not-found"))

    with pytest.raises(EventTypeNotFound):
        script.play(event_types(script).show("x"))


def test_an_answer_that_is_none_is_refused() -> None:
    script = Script(Reply(200, b"<html>"))

    with pytest.raises(WrongAddress, match=r"no Penstock hub answers at http://s/event-types, .* 200: <html>"):
        script.play(event_types(script).all())


def test_json_of_another_shape_is_refused() -> None:
    script = Script(Reply(200, b'{"hello":"world"}'))

    with pytest.raises(MalformedAnswer, match="another server may answer there"):
        script.play(event_types(script).all())


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [("partition_cuont", "partition_count"), ("catgory", "category"), ("label", "labels"), ("partitions", "partition")],
)
def test_a_mistyped_trait_is_refused_with_the_one_that_was_meant(mistyped: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"an event type has no '{mistyped}'; did you mean '{meant}"):
        definition("x", {mistyped: 4})  # type: ignore[misc]


def test_a_trait_that_resembles_none_is_refused_too() -> None:
    with pytest.raises(TypeError, match=r"an event type has no 'zz'; Any other members are given with more=\{"):
        definition("x", {"zz": 4})  # type: ignore[typeddict-unknown-key]


def test_members_of_nakadis_definition_are_taken_and_any_others_when_they_are_meant() -> None:
    made = definition(
        "x", {"labels": {"team": "shop"}, "audience": "business-unit-internal", "more": {"colour": "red"}}
    )

    assert made == {
        "name": "x",
        "category": "undefined",
        "owning_application": "",
        "enrichment_strategies": [],
        "schema": {"type": "json_schema", "schema": "{}"},
        "labels": {"team": "shop"},
        "audience": "business-unit-internal",
        "colour": "red",
    }


def test_a_schema_in_nakadis_shape_stays_as_it_is() -> None:
    shown = {"type": "json_schema", "schema": "{}"}

    assert definition("x", {"schema": shown})["schema"] == shown


def test_an_event_type_is_replaced_under_its_name() -> None:
    script = Script(Reply(200))

    script.play(event_types(script).replace({"name": "a.b", "category": "data"}))

    [request] = script.requests
    assert (request.method, request.url) == ("PUT", "http://s/event-types/a.b")
    assert json.loads(request.body or b"") == {"name": "a.b", "category": "data"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "is missing"),
        ({"name": ""}, 'not ""'),
        ({"name": "a/b"}, 'not "a/b"'),
        ({"name": 7}, "not 7"),
        ({"name": None}, "is missing"),
    ],
    ids=str,
)
def test_a_replacement_without_a_name_is_not_sent(given: dict[str, Any], reason: str) -> None:
    script = Script()
    with pytest.raises(InvalidEventType, match=f'Field "name" .*{reason}'):
        script.play(event_types(script).check(given))
    with pytest.raises(InvalidEventType, match=f'Field "name" .*{reason}') as refused:
        script.play(event_types(script).replace(given))
    assert (refused.value.fields["field"], script.requests) == ("name", [])


def test_whether_a_definition_would_be_taken_is_asked_again_where_that_fails() -> None:
    script = Script(Reply(503), Reply(204))

    script.play(event_types(script).check({"name": "a.b", "category": "data"}))

    assert [(request.method, request.url, request.body) for request in script.requests] == [
        ("POST", "http://s/event-types/a.b/definition-check", b'{"name":"a.b","category":"data"}')
    ] * 2


def test_a_replacement_that_may_have_been_done_is_not_repeated() -> None:
    script = Script(Unreachable(url="u", reason="refused"), Reply(502, b""))

    with pytest.raises(ServerError):
        script.play(event_types(script).replace({"name": "a"}))
    assert len(script.requests) == 2


def test_the_category_of_what_was_replaced_is_asked_for_again() -> None:
    script = Script(shown({"category": "undefined"}), Reply(200), shown({"category": "business"}))
    known = event_types(script)

    assert script.play(known.category("a")) == "undefined"
    script.play(known.replace({"name": "a"}))
    assert script.play(known.category("a")) == "business"


def test_adding_partitions_is_repeated_until_it_is_done() -> None:
    script = Script(Reply(502, b""), Reply(204))

    script.play(event_types(script).grow("a", 8))

    assert [(request.method, request.url, request.body) for request in script.requests] == [
        ("PUT", "http://s/event-types/a/partition-count", b'{"partition_count":8}')
    ] * 2


def test_what_another_schema_would_mean_is_asked() -> None:
    change = {"pointer": "#/a", "rule": "title", "says": "the title differs", "level": "PATCH", "refused": False}
    answer = {
        "compatible": True,
        "compatibility_mode": "forward",
        "validated_against_version": "1.0.0",
        "version": "1.0.1",
        "producers": True,
        "consumers": True,
        "changes": [change | {"old": "a", "new": None, "instead": "", "producers": True, "consumers": True}],
    }
    script = Script(shown(answer), shown(answer | {"compatible": False, "error": "no", "changes": []}))
    known = event_types(script)

    found = script.play(known.check_compatibility("a", "{}", "latest"))
    refused = script.play(known.check_compatibility("a", "{}", "1.0.0"))

    assert (found.version, found.error, found.changes[0].rule, found.changes[0].old) == ("1.0.1", None, "title", "a")
    assert (refused.compatible, refused.error) == (False, "no")
    assert [(request.method, request.url, request.body) for request in script.requests] == [
        ("POST", f"http://s/event-types/a/schemas/{version}/compatibility-check", b'{"schema":"{}"}')
        for version in ("latest", "1.0.0")
    ]


@pytest.mark.parametrize("name", ["", "a/b", "a?c", "..", "a b"])
def test_what_no_event_type_can_be_called_is_not_asked_for_as_another_path(name: str) -> None:
    script = Script()
    known = event_types(script)
    ways = [known.show(name), known.grow(name, 2), known.delete(name), known.partitions(name)]
    ways.append(known.check_compatibility(name, "{}", "latest"))

    for way in ways:
        with pytest.raises(EventTypeNotFound, match=re.escape(repr(name))):
            script.play(way)
    assert script.requests == []


def test_a_schema_is_sent_as_the_text_that_it_is() -> None:
    assert schema_text(' {"a": 1} ') == ' {"a": 1} '
    assert schema_text({"type": "object"}) == '{"type":"object"}'
