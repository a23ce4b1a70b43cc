"""Whatever a file holds, the check has something to say of it, in each of its forms."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.definitions.checks import Check, Fault, check_definitions
from penstock.cli.definitions.definition import Definition, read_definitions
from penstock.cli.definitions.document import FileLine
from penstock.cli.definitions.reports import as_object, as_sarif
from tests.exhaustive import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
    max_leaves=8,
)
MEMBERS = [
    *("name", "category", "owning_application", "schema", "partition_count", "partition_strategy", "labels"),
    *("partition_key_fields", "ordering_key_fields", "annotations", "default_statistic", "options", "audience"),
    *("compatibility_mode", "cleanup_policy", "authorization", "event_owner_selector", "enrichment_strategies"),
]
SCHEMAS = st.dictionaries(
    st.sampled_from(["$ref", "type", "properties", "required", "allOf", "items", "pattern", "definitions", "nullable"]),
    JSON | st.sampled_from(["#", "#/definitions/a", "object", "string"]),
    max_size=4,
)
GIVEN = st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=5)


def read(directory: Path, *texts: str) -> list[Definition]:
    files = [directory / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    found, wrong = read_definitions(files)
    assert not wrong
    return found


@settings(max_examples=examples(15, 200))
@given(given=GIVEN, schema=SCHEMAS, category=st.sampled_from(["undefined", "business", "data"]))
def test_any_definition_can_be_reported(
    tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any], schema: Any, category: str
) -> None:
    file = tmp_path_factory.mktemp("any") / "a.json"
    base = {"name": "a", "category": category, "schema": schema}
    file.write_text(json.dumps([base, base | given, given, given | {"schema": schema}]))

    found, wrong = read_definitions([file])
    check = Check(tuple(check_definitions(found)), tuple(wrong))

    assert len(found) + len(wrong) == 4
    json.dumps(as_object(check), allow_nan=False)
    results = as_sarif(check)["runs"][0]["results"]
    assert all(each["locations"][0]["physicalLocation"]["region"]["startLine"] == 1 for each in results)


def test_reference_to_a_file_whose_name_has_a_nul_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"name": "a", "schema": {"$ref": "\0"}}))

    found, wrong = read_definitions([file])

    assert not found
    assert ["no name of a file has a NUL" in error.reason for error in wrong] == [True]


def test_schema_of_another_language_or_dialect_is_an_error(tmp_path: Path) -> None:
    [avro] = check_definitions(read(tmp_path, "name: a\nschema: {type: avro_schema, schema: '{}'}\n"))
    [null] = check_definitions(read(tmp_path, "name: a\nschema: {type: object, $schema: null}\n"))

    assert [(fault.place.line, "Avro" in fault.reason) for fault in avro.faults] == [(2, True)]
    assert ["$schema that is not known here, null" in fault.reason for fault in null.faults] == [True]


def test_second_definition_of_a_name_and_second_reading_of_a_file_are_errors(tmp_path: Path) -> None:
    one, other, third = check_definitions(read(tmp_path, "name: a", "\nname: a", "name: b"))
    first, second = tmp_path / "0.yaml", tmp_path / "1.yaml"
    _, again = check_definitions(read_definitions([first, first])[0])
    _, beside = check_definitions(read(tmp_path, '[{"name": "a"}, {"name": "a"}]'))

    assert (one.faults, third.faults) == ((), ())
    assert other.faults == (Fault(FileLine(str(second), 2), f"'a' is defined twice, first at {first}:1"),)
    assert again.faults == (Fault(FileLine(str(first), 1), "'a' is given twice: name its file once"),)
    assert [fault.reason for fault in beside.faults] == [f"'a' is defined twice, first at {first}:1"]
