"""Hostile input over HTTP: refused with its cause, or processed while other clients are answered.

Here is an example of each kind; the unit tests of schemas and events have the limits themselves.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import httpx2
import pytest

from tests.conformance.nakadi.hubs import JSON, ON_SQLITE
from tests.exhaustive import examples, exhaustive
from tests.nakadi import EventType, Nakadi, json_schema, problem

pytestmark = ON_SQLITE
STALLED_SECONDS = 300
"""A hub that gives no answer for so long has stalled."""
PAUSE_SECONDS = 0.02
OPEN: dict[str, Any] = {"compatibility_mode": "none"}
DEEP = 10_000
LARGEST = "[ab]*" + "a[ab]{990}" * 9 + "c"
"""Has about as many states as a pattern may have, nearly all of which a text of a and b keeps busy."""


@contextmanager
def others_answered(nakadi: Nakadi) -> Iterator[None]:
    """Ask for the hub's health on another connection until the block ends, and see that each answer comes."""
    over, asked, failed = threading.Event(), threading.Event(), []

    def ask() -> None:
        with httpx2.Client(base_url=str(nakadi.http.base_url), timeout=STALLED_SECONDS) as other:
            while not failed and not (over.wait(PAUSE_SECONDS) and asked.is_set()):
                try:
                    assert other.get("/health").text == "OK"
                except (httpx2.HTTPError, AssertionError) as error:
                    failed.append(error)
                asked.set()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        assert asked.wait(STALLED_SECONDS)
        yield
    finally:
        over.set()
        thread.join()
    assert not failed, failed


def letters(count: int, seed: int = 0) -> str:
    bits = Random(f"{count} {seed}").getrandbits(count)
    return f"{bits:0{count}b}".translate(str.maketrans("01", "ab"))


def nested(levels: int) -> str:
    return '{"properties":{"a":' * levels + "{}" + "}}" * levels


def doubling(levels: int) -> dict[str, Any]:
    """Return definitions each of which refers twice to the next."""
    twice = {f"a{level}": {"allOf": [{"$ref": f"#/definitions/a{level + 1}"}] * 2} for level in range(levels)}
    return {"definitions": twice | {f"a{levels}": {}}, "$ref": "#/definitions/a0"}


REFUSED: dict[str, tuple[Any, str]] = {
    "remote reference": ({"$ref": "http://127.0.0.1:9/schema.json"}, "http://127.0.0.1:9/schema.json"),
    "look-around": ({"properties": {"a": {"pattern": "^(?=(a+)+$)"}}}, "has a pattern at #/properties/a"),
    "large pattern": ({"properties": {"a": {"pattern": "a{1000}" * 10}}}, "that is too large"),
    "many large patterns": (
        {"properties": {f"p{number}": {"pattern": f"^.{{1,990}}{number}$"} for number in range(200)}},
        "for all patterns",
    ),
    "pattern of another language": ({"properties": {"a": {"pattern": r"\Qa\E"}}}, "at #/properties/a/pattern: "),
    "itself": ({"$ref": "#"}, "refers at # to itself"),
    "doubled work": (doubling(40), "applies more than"),
    "work doubled by an event": (
        {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
        "would double with each of its levels",
    ),
    "more than half a megabyte": ({"title": "x" * (1 << 19)}, "more than the 524288"),
    "10 000 levels": (nested(DEEP // 2), "is nested too deeply"),
    "lone surrogate": (r'{"title": "\ud800"}', "half a surrogate pair"),
    "NaN": ('{"minimum": NaN}', "is not valid JSON"),
    "infinity": ('{"minimum": 1e999}', "is not valid JSON"),
    "a key twice": ('{"title": "a", "title": "b"}', "the key 'title' stands twice"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_schema_is_refused_with_its_cause(nakadi: Nakadi, name: str) -> None:
    schema, cause = REFUSED[name]
    assert cause in nakadi.refuse(schema=json_schema(schema), **OPEN)


BODIES: dict[str, tuple[str, str]] = {
    "lone surrogate": (r'{"name": "\ud800"}', "half a surrogate pair"),
    "NaN": ('{"name": NaN}', "invalid character"),
    "infinity": ('{"name": "a", "x": 1e999}', "out of range"),
    "10 000 levels": ('{"name":' * DEEP + "1" + "}" * DEEP, "nested too deeply"),
    "10 000 lists": ("[" * DEEP + "]" * DEEP, "nested too deeply"),
    "cut": ('{"name": "a', "ends in the middle"),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", ["/event-types", "/settings/features"])
def test_hostile_body_is_answered_400_with_its_cause(nakadi: Nakadi, name: str, path: str) -> None:
    body, cause = BODIES[name]
    assert cause in problem(nakadi.http.post(path, content=body, headers=JSON), 400)["detail"]


# Events

MALFORMED: dict[str, tuple[str, str]] = {
    "10 000 levels": ('{"a":' * DEEP + "1" + "}" * DEEP, "nested too deeply"),
    "10 000 lists": ('{"a":' + "[" * DEEP + "]" * DEEP + "}", "nested too deeply"),
    "257 levels": ('{"a":' * 257 + "1" + "}" * 257, "nested too deeply: 257 levels"),
    "lone surrogate": (r'{"a":"\ud800"}', "half a surrogate pair"),
    "lone surrogate as a name": (r'{"\udfff":1}', "surrogate pair"),
    "NaN": ('{"a":NaN}', "not valid JSON"),
    "a number out of range": ('{"a":1e999}', "not valid JSON"),
    "an integer of 65 bits": ('{"a":18446744073709551616}', "does not fit into 64 bits"),
    "an integer of 100 000 digits": ('{"a":' + "9" * 100_000 + "}", ""),
    "a key twice": ('{"a":1,"a":2}', "the key 'a' stands twice"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_batch_with_a_hostile_event_is_refused_whole_with_its_cause(nakadi: Nakadi, name: str) -> None:
    event, cause = MALFORMED[name]
    created = nakadi.create(schema=json_schema({}), **OPEN)
    assert cause in problem(created.hand_in(f'[{{"a":0}},{event}]'), 400)["detail"]
    created.publish({"a": 1})
    assert created.events(1) == [{"a": 1}]


HARD: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "catastrophic pattern": ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 900_000 + "!"}, "#/a: string"),
    "the largest pattern": (
        {"properties": {"a": {"pattern": LARGEST}}},
        {"a": letters(900_000)},
        "#: has a text of 900000 bytes, where up to ",
    ),
    "the largest pattern, many texts": (
        {"additionalProperties": {"not": {"pattern": LARGEST}}},
        {f"p{number}": letters(9_000, number) for number in range(99)},
        "#: has more text than can be held against the patterns of its schema",
    ),
    "the largest pattern for names": (
        {"patternProperties": {LARGEST: {}}},
        {letters(900_000): 1},
        "#: has members' names of 900000 bytes, where up to ",
    ),
    "the longest text for the largest pattern": (
        {"properties": {"a": {"pattern": LARGEST}}},
        {"a": letters(10_000)},
        "",
    ),
    "all text for the largest pattern": (
        {"additionalProperties": {"not": {"pattern": LARGEST}}},
        {f"p{number}": letters(1_000, number) for number in range(24)},
        None,
    ),
    "a tree": (
        {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "n": {"type": "integer"}}},
        json.loads('{"left":' * 250 + '{"n":"x"}' + "}" * 250),
        "expected type: Integer, found: String",
    ),
    "many schemas for many values": (
        {"additionalProperties": {"anyOf": [{"type": "string", "title": f"{number}"} for number in range(9_000)]}},
        {f"{number}": number for number in range(60_000)},
        "that takes too long",
    ),
    "many mistakes": (
        {"additionalProperties": {"type": "string"}},
        {f"{number}": number for number in range(60_000)},
        "expected type: String",
    ),
    "unlike items": (
        {"properties": {"a": {"uniqueItems": True}}},
        {"a": [*range(100_000), 1]},
        "#/a: array items are not unique",
    ),
    "half a megabyte of schema": (
        {"properties": {"a": {"enum": [f"{number:08}" for number in range(43_680)]}}},
        {"a": "x"},
        "#/a: x is not a valid enum value",
    ),
    "names that are too long": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "propertyNames": {"maxLength": 3}},
        {f"name{number}": {"a": 1} for number in range(40_000)},
        "expected maxLength: 3, actual: ",
    ),
    "more extreme numbers than can be divided": (
        {"properties": {"a": {"items": {"multipleOf": 0.01}}}},
        {"a": [1e300] * 140_000},
        "#: has 140000 numbers from 1e50 or up to 1e-50",
    ),
    "a number as large as there are": ({"properties": {"a": {"multipleOf": 1e-300}}}, {"a": 1.7e308}, ""),
}
"""A schema, an event, and the text of its refusal: None where it is stored, '' where it may be either."""
SHOWN_BY_UNIT_TESTS = (
    "the largest pattern, many texts", "the largest pattern for names", "the longest text for the largest pattern",
    "many mistakes", "unlike items", "half a megabyte of schema", "names that are too long",
)  # fmt: skip
"""Whose cause unit tests show, and which take a second each."""


@pytest.mark.parametrize("name", [exhaustive(each) if each in SHOWN_BY_UNIT_TESTS else each for each in HARD])
def test_expensive_event_is_answered_while_others_are(nakadi: Nakadi, name: str) -> None:
    schema, event, cause = HARD[name]
    with others_answered(nakadi):
        created = nakadi.create(schema=json_schema(schema), **OPEN)
        if cause is None:
            created.publish(event)
        elif cause:
            [item] = created.refuse(event)
            assert (item["publishing_status"], item["step"]) == ("failed", "validating")
            assert cause in item["detail"]
            assert len(item["detail"]) < 20_000
        else:
            assert created.hand_in(event).status_code in (200, 422)


@pytest.mark.parametrize("schema", [exhaustive({}), {"properties": {"a": {"items": {"multipleOf": 0.01}}}}], ids=str)
def test_batch_of_extreme_numbers_is_answered_while_others_are(nakadi: Nakadi, schema: dict[str, Any]) -> None:
    """A body has room for millions of them, each of which could take some ten microseconds."""
    created = nakadi.create(schema=json_schema(schema), **OPEN)
    event = f'{{"a":[{",".join(["1e300"] * 19_000)}]}}'
    with others_answered(nakadi):
        assert created.hand_in(f"[{','.join([event] * examples(4, 30))}]").status_code in (200, 422)


def test_expensive_events_of_several_clients_are_answered_while_others_are(nakadi: Nakadi) -> None:
    created = nakadi.create(schema=json_schema({"additionalProperties": {"not": {"pattern": LARGEST}}}), **OPEN)
    event = {f"p{number}": letters(1_000, number) for number in range(24)}
    answers: list[int] = []

    def hand_in() -> None:
        with httpx2.Client(base_url=str(nakadi.http.base_url), timeout=STALLED_SECONDS) as http:
            answers.append(EventType(http, created.name).hand_in(event).status_code)

    threads = [threading.Thread(target=hand_in) for _ in range(3)]
    with others_answered(nakadi):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [200] * 3
