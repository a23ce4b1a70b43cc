"""docs/guidelines.md is what its script writes, and its examples do what it says of them."""

import re
from pathlib import Path

import pytest

from penstock.cli.definitions.definition import read_definitions
from penstock.core.registry.definition import find_wrong_annotations
from penstock.core.registry.event_type import EventType
from penstock.schema.guidelines import ENTITY_KEY_FIELDS, GUIDELINES, PROCESS_ID_FIELD, WAIVER_PREFIX, check
from scripts import document_guidelines
from tests.docs.examples import ROOT, blocks

PAGE = ROOT / "docs" / "guidelines.md"
TEXT = PAGE.read_text(encoding="utf-8")
DEFINITION, WAIVER, FIELD_WAIVERS = (block.text for block in blocks(PAGE) if block.language == "yaml")


def test_page_of_guidelines_is_up_to_date() -> None:
    stale = "docs/guidelines.md is out of date: .venv/bin/python scripts/document_guidelines.py"

    assert document_guidelines.render() == TEXT, stale


def test_page_has_every_guideline_once() -> None:
    assert sorted(re.findall(r"^### `([\w-]+)`$", TEXT, re.MULTILINE)) == sorted(GUIDELINES)


def test_example_definition_keeps_all_guidelines(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(DEFINITION)

    [found], wrong = read_definitions([tmp_path / "a.yaml"])

    assert not wrong
    assert EventType.parse(found.value).partition_count == 4
    assert check(found.value) == []


@pytest.mark.parametrize("annotation", [PROCESS_ID_FIELD, ENTITY_KEY_FIELDS])
def test_annotations_of_the_page_are_valid(annotation: str) -> None:
    assert f"`{annotation}`" in TEXT
    assert list(find_wrong_annotations({annotation: "x"})) == []


def test_example_waiver_waives_its_guideline(tmp_path: Path) -> None:
    phone = "    phone: {type: string}\n"
    waiver = WAIVER.removeprefix("annotations:\n")
    (tmp_path / "a.yaml").write_text(DEFINITION.replace("annotations:\n", f"annotations:\n{waiver}") + phone)

    [found], _ = read_definitions([tmp_path / "a.yaml"])

    assert [(each.rule.id, bool(each.waived)) for each in check(found.value)] == [("personal-data", True)]


def test_example_waivers_of_fields_waive_only_those_fields(tmp_path: Path) -> None:
    courier = "    courier: {properties: {phone: {type: string}, email: {type: string}}}\n"
    waivers = FIELD_WAIVERS.removeprefix("annotations:\n")
    text = DEFINITION.replace("annotations:\n", f"annotations:\n{waivers}") + courier
    (tmp_path / "a.yaml").write_text(f"{text}    device_id: {{type: string}}\n")

    [found], _ = read_definitions([tmp_path / "a.yaml"])

    assert [bool(each.waived) for each in check(found.value)] == [True, False, True]
    assert list(find_wrong_annotations(found.value["annotations"])) == []


def test_waiver_of_every_guideline_is_a_valid_annotation() -> None:
    assert list(find_wrong_annotations({f"{WAIVER_PREFIX}{guideline}": "a reason" for guideline in GUIDELINES})) == []
