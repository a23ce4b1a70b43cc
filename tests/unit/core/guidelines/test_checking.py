import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.guidelines import GUIDELINES, check
from tests.unit.core.guidelines.definitions import BUSINESS, DATA, UNDEFINED, described

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(), each, max_size=4),
    max_leaves=12,
)
KEYWORDS = st.sampled_from(
    [
        *("$ref", "properties", "items", "allOf", "oneOf", "required", "type", "definitions", "additionalProperties"),
        *("format", "not", "dependencies", "a", "email"),
    ]
)
REFERENCES = st.sampled_from(["#", "#/properties/a", "#/definitions/a", "#/allOf/0", "#a", "x#/a"])
SCHEMAS = st.recursive(
    REFERENCES | st.booleans() | st.sampled_from(["object", "string", "a", "email"]),
    lambda each: st.dictionaries(KEYWORDS, each, max_size=4) | st.lists(each, max_size=3),
    max_leaves=20,
)
DEFINITIONS = st.dictionaries(st.sampled_from(sorted({*BUSINESS, *DATA, *UNDEFINED})), JSON)


@pytest.mark.parametrize("odd", [None, [], "x", 7, {}, {"schema": {"schema": "\ud800"}}, {"schema": {"schema": "["}}])
def test_what_is_no_definition_raises_nothing(odd: Any) -> None:
    check(odd)


@given(definition=DEFINITIONS, schema=SCHEMAS, base=st.sampled_from([BUSINESS, DATA, UNDEFINED]))
@settings(deadline=None)
def test_whatever_is_broken_each_finding_can_be_told(definition: Any, schema: Any, base: dict[str, Any]) -> None:
    for finding in check(base | definition) + check(base | {"schema": described(schema)}):
        assert GUIDELINES[finding.rule.id] is finding.rule
        assert finding.pointer.startswith("#")
        assert finding.line().isascii()
        assert finding.line().isprintable()


def test_a_schema_that_is_nested_without_end_is_passed_over() -> None:
    text = '{"items":' * 100_000 + "{}" + "}" * 100_000

    assert "payload-schema" in [each.rule.id for each in check(DATA | {"schema": {"schema": text}})]


def test_it_is_cheap() -> None:
    properties = {f"field_{n}": {"type": "string", "maxLength": 80, "description": "A field."} for n in range(100)}
    definition = DATA | {"schema": {"type": "json_schema", "schema": json.dumps({"properties": properties})}}

    times = []
    for _ in range(5):
        started = time.process_time()
        check(definition)
        times.append(time.process_time() - started)

    assert min(times) < 0.02  # Seconds of processor time; it takes about a fiftieth of that.
