"""Files with definitions: one or many, in YAML or JSON, the schema said in any of its ways."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.definitions.definition import Definition, read_definitions
from penstock.cli.definitions.document import FileLine
from penstock.schema.guidelines import GuidelineFinding
from penstock.schema.guidelines.rules import PERSONAL_DATA

SCHEMA = {"type": "object", "properties": {"ä": {"type": "string"}}}
TEXT = '{"type":"object","properties":{"ä":{"type":"string"}}}'


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(name: str, text: str) -> tuple[list[Definition], list[str]]:
    Path(name).write_text(text, encoding="utf-8")
    found, wrong = read_definitions([Path(name)])
    return found, [str(each) for each in wrong]


def one(name: str, text: str) -> Definition:
    [found], wrong = read(name, text)
    assert not wrong
    return found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "name: a\n---\nname: b\n"),
        ("a.yml", "- name: a\n- name: b\n"),
        ("a.json", '[{"name": "a"}, {"name": "b"}]'),
        ("a", '[{"name": "a"},\n {"name": "b"}]'),
        ("a.yaml", "\ufeffname: a\n---\nname: b\n"),
    ],
)
def test_file_may_have_several_definitions(name: str, text: str) -> None:
    found, wrong = read(name, text)

    assert [each.name for each in found] == ["a", "b"]
    assert not wrong


@pytest.mark.parametrize("text", ['[{"name": "a"}]', "name: a", ' {"name": "a"}'])
def test_dash_reads_stdin(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    [found], _ = read_definitions([Path("-")])

    assert (found.name, found.place) == ("a", FileLine("<stdin>", 1))


@pytest.mark.parametrize(
    "schema",
    [SCHEMA, TEXT, {"type": "json_schema", "schema": TEXT}, {"type": "json_schema", "schema": SCHEMA},
     "schemas.yaml#/Order", {"$ref": "schemas.yaml#/Order"}, "order.json"],
)  # fmt: skip
def test_schema_may_be_an_object_a_text_or_a_reference(schema: Any) -> None:
    Path("schemas.yaml").write_text(json.dumps({"Order": SCHEMA}))
    Path("order.json").write_text(json.dumps(SCHEMA))

    assert one("a.json", json.dumps({"name": "a", "schema": schema})).value["schema"] == {
        "type": "json_schema",
        "schema": TEXT,
    }


def test_schema_as_text_keeps_its_spaces_and_missing_members_get_defaults() -> None:
    assert one("a.yaml", "schema: ' { }'").value["schema"] == {"type": "json_schema", "schema": " { }"}
    assert one("a.yaml", "category: data").name == "(without a name)"
    assert one("a.yaml", "{name: a, category: data}").value == {
        "name": "a",
        "category": "data",
        "owning_application": "",
        "enrichment_strategies": ["metadata_enrichment"],
        "schema": {"type": "json_schema", "schema": "{}"},
    }


def finding(within: Any, pointer: str) -> GuidelineFinding:
    return GuidelineFinding(PERSONAL_DATA, within, pointer, "")


def test_findings_and_errors_have_their_lines() -> None:
    found = one(
        "a.yaml",
        "name: a\nannotations:\n  a/b.c: x\noptions:\n  retention_time: 1\n"
        "schema:\n  properties:\n    a~/b:\n      type: x\n",
    )

    assert found.find_line(finding("definition", "#/annotations/a~1b.c")) == FileLine("a.yaml", 3)
    assert found.find_line(finding("definition", "#/owning_application")) == FileLine("a.yaml", 1)
    assert found.find_line(finding("schema", "#/properties/a~0~1b/type")) == FileLine("a.yaml", 9)
    assert found.field_at("annotations[a/b.c]") == FileLine("a.yaml", 3)
    assert found.field_at("options.retention_time") == FileLine("a.yaml", 5)
    assert found.field_at("schema.schema") == FileLine("a.yaml", 6)
    assert found.field_at("") == FileLine("a.yaml", 1)


def test_findings_in_a_schema_as_text_or_in_another_file_have_lines_there() -> None:
    Path("sub").mkdir()
    Path("sub/schemas.yaml").write_text("\nOrder:\n  properties:\n    a: {}\n")
    as_text = one("a.yaml", "name: a\nschema:\n  type: json_schema\n  schema: |\n    {}\n")
    elsewhere = one("a.yaml", "name: a\nschema: sub/schemas.yaml#/Order\n")

    assert as_text.find_line(finding("schema", "#/properties/a")) == FileLine("a.yaml", 4)
    assert elsewhere.find_line(finding("schema", "#/properties/a")) == FileLine("sub/schemas.yaml", 4)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", "", "a.yaml:1: it is empty"),
        ("a.yaml", "# x", "a.yaml:1: it is empty"),
        ("a.json", "[]", "a.json:1: it defines no event type: the list is empty"),
        ("a.yaml", "name: a\n---\n\n[]", "a.yaml:4: it defines no event type: the list is empty"),
        ("a.json", "null", "a.json:1: a definition of an event type is an object"),
        ("a.yaml", "name: a\n---\njust text", "a.yaml:3: a definition of an event type is an object"),
        ("a.yaml", "- name: a\n- [x]", "a.yaml:2: a definition of an event type is an object"),
        ("a.json", "{", "a.json:1: not valid JSON"),
        ("a.yaml", "name: a\nname: b", "a.yaml:2: the key 'name' stands twice"),
        ("a.yaml", "name: a\nschema: none.yaml#/a", "a.yaml:2: none.yaml cannot be read: No such file or directory"),
        ("a.yaml", "name: a\nschema: b#/a", "a.yaml:2: b cannot be read: Is a directory"),
    ],
)
def test_unusable_text_is_reported_with_file_and_line(name: str, text: str, says: str) -> None:
    Path("b").mkdir()

    _, [wrong] = read(name, text)

    assert wrong.startswith(says)


OPENAPI = {"openapi": "3.0.3", "info": {}, "paths": {}, "components": {"schemas": {"Order": SCHEMA, "Cart": {}}}}


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("api.yaml", "'api.yaml' is a whole OpenAPI document: name one of its schemas, as in api.yaml#/"),
        ({"$ref": "api.yaml#"}, "'api.yaml#' is a whole OpenAPI document"),
        ("api.yaml#/components/schemas", "holds what is no schema, #/components/schemas of an OpenAPI document"),
        (OPENAPI, "the schema is a whole OpenAPI document: name one of its schemas, as in openapi.yaml#/"),
        (json.dumps(OPENAPI), "the schema is a whole OpenAPI document"),
        ({"type": "json_schema", "schema": OPENAPI}, "the schema is a whole OpenAPI document"),
        ({"type": "json_schema", "schema": json.dumps(OPENAPI)}, "the schema is a whole OpenAPI document"),
        ({"swagger": "2.0", "info": {}}, "as in openapi.yaml#/components/schemas/Order; this one has none"),
    ],
    ids=["a file", "its root", "all schemas", "inline", "as text", "object within", "text within", "without schemas"],
)
def test_whole_openapi_document_is_refused_as_a_schema(schema: Any, says: str) -> None:
    Path("api.yaml").write_text(json.dumps(OPENAPI))

    _, [wrong] = read("a.json", json.dumps({"name": "a", "schema": schema}))

    assert says in wrong
    assert wrong.startswith("a.json:1: ")
    assert "this one has none" in says or wrong.endswith("components/schemas/Order; it has Order, Cart")


def test_valid_definitions_are_read_beside_invalid_ones_and_missing_files_raise() -> None:
    Path("b.yaml").write_bytes(b"a: 1\nb: \xff")
    found, wrong = read("a.yaml", "- name: a\n- 7\n- name: b\n")
    more, more_wrong = read_definitions([Path("a.yaml"), Path("b.yaml")])

    assert [each.name for each in found] == [each.name for each in more] == ["a", "b"]
    assert len(wrong) == 1
    assert str(more_wrong[1]) == "b.yaml:2: not UTF-8: byte FF"
    with pytest.raises(FileNotFoundError):
        read_definitions([Path("none.yaml")])
