"""The event guidelines, row by row: definitions that break one, and ones that look like it and do not."""

import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.schema.guidelines import GUIDELINES, WAIVER_PREFIX, GuidelineFinding, check
from penstock.schema.guidelines.rules import LINE_CHARS_MAX, NAME_STYLE
from tests.exhaustive import examples
from tests.unit.schema.guidelines.definitions import BUSINESS, COUNT, DATA, TEXT, UNDEFINED, described, schema


class Row(NamedTuple):
    """A change of a definition that keeps all guidelines, and the guideline that it breaks, or none."""

    name: str
    definition: dict[str, Any]
    rule: str | None = None
    pointer: str = ""
    found: str = ""


def broken(definition: Any) -> list[tuple[str, str]]:
    """Return by id and pointer the guidelines that *definition* breaks and does not waive."""
    return [(finding.rule.id, finding.pointer) for finding in check(definition) if finding.waived is None]


UNWAIVED = UNDEFINED | {"annotations": {}}
IDS = {"metadata": {"type": "object", "properties": {"eid": TEXT}, "required": ["eid"]}}

DECLARATION = [
    Row("business keeps all", BUSINESS),
    Row("data keeps all", DATA),
    Row("undefined keeps all with its waiver", UNDEFINED),
    Row("space in name", BUSINESS | {"name": "order placed"}, "name-url-safe", "#/name", "' '"),
    Row("umlaut in name", BUSINESS | {"name": "aufträge"}, "name-url-safe", "#/name", "'ä'"),
    Row("no name", {key: BUSINESS[key] for key in BUSINESS if key != "name"}, "name-url-safe", "#/name", "no name"),
    Row("upper case", BUSINESS | {"name": "sales.OrderPlaced"}, "name-style", "#/name"),
    Row("two separators", BUSINESS | {"name": "sales..order"}, "name-style", "#/name"),
    Row("tilde", BUSINESS | {"name": "sales~order"}, "name-style", "#/name"),
    Row("words, numbers and separators", BUSINESS | {"name": "a-b_c.d2"}),
    Row("no owner", BUSINESS | {"owning_application": None}, "ownership", "#/owning_application"),
    Row("blank owner", BUSINESS | {"owning_application": " "}, "ownership", "#/owning_application"),
    Row("undefined", UNWAIVED, "category", "#/category", "'undefined'"),
    Row("unknown category", UNWAIVED | {"category": "bussiness"}, "category", "#/category", "'bussiness'"),
    Row("no category", UNWAIVED | {"category": None}, "category", "#/category", "no category"),
    Row("category in upper case", BUSINESS | {"category": "BUSINESS"}),
    Row("mode none", BUSINESS | {"compatibility_mode": "none"}, "backward-compatible", "#/compatibility_mode"),
    Row("mode forward", BUSINESS | {"compatibility_mode": "forward"}),
    Row("three partitions", BUSINESS | {"partition_count": 3}, "partition-count", "#/partition_count", "2 and 4"),
    Row("six by the statistic", BUSINESS | {"default_statistic": {"read_parallelism": 6, "write_parallelism": 4}},
        "partition-count", "#/default_statistic/read_parallelism", "4 and 8"),
    Row("the statistic's smaller one", BUSINESS
        | {"default_statistic": {"read_parallelism": 3, "write_parallelism": 4}}),
    Row("256 partitions", BUSINESS | {"partition_count": 256}),
    Row("partitions that are no number", BUSINESS | {"partition_count": "many"}),
    Row("undefined without id", UNDEFINED | {"schema": schema("n", n=COUNT)}, "unique-ids", "#/required"),
    Row("undefined with an id that may be missing", UNDEFINED | {"schema": schema("n", event_id=TEXT, n=COUNT)},
        "unique-ids", "#/required"),
    Row("undefined with an id of another kind", UNDEFINED | {"schema": schema("id", "n", id=TEXT, n=COUNT)}),
    Row("metadata by hand", UNDEFINED | {"schema": schema("metadata", "n", n=COUNT, **IDS)}, "business-category",
        "#/category", "metadata.eid"),
    Row("change by hand", BUSINESS | {"schema": schema("bp_id", "step", bp_id=TEXT, step=COUNT, data_op=TEXT,
        data={"properties": {"a": TEXT}})}, "data-category", "#/category", "data_op"),
    Row("id in each of the kinds", UNDEFINED | {"schema": described({"properties": {"n": COUNT, "eid": TEXT},
        "required": ["n"], "oneOf": [{"required": ["eid"]}] * 2})}),
]  # fmt: skip

TIME = {"type": "string", "format": "date-time"}


def process(named: str | None, **properties: Any) -> dict[str, Any]:
    """The business event type with other fields, one of which may be named as the process's id."""
    annotations = {} if named is None else {"penstock/process-id-field": named}
    return BUSINESS | {"annotations": annotations, "schema": schema(*properties, **properties)}


def change(required: str, **more: Any) -> dict[str, Any]:
    """The data event type with other fields, of which those are required."""
    properties = {"order_id": TEXT, "version": COUNT, "at": TIME, "eid": TEXT, "sku": TEXT, "customer": TEXT}
    return DATA | {"schema": schema(*required.split(), **properties)} | more


def entity(named: str) -> dict[str, Any]:
    return {"annotations": {"penstock/entity-key-fields": named}}


KEYED_BY = "partition_key_fields"
ORDERED_BY = "ordering_key_fields"

ORDERING = [
    Row("no process id", process(None, step=COUNT, order_id=TEXT), "process-id", "#/properties"),
    Row("process id that may be missing", BUSINESS | {"schema": schema("step", bp_id=TEXT, step=COUNT)}, "process-id",
        "#/properties/bp_id", "'bp_id' is not required"),
    Row("process id of another word", process(None, orderProcessId=TEXT, step=COUNT)),
    Row("named process id", process("order_id", order_id=TEXT, step=COUNT)),
    Row("named process id further in", process("order.id", order={"properties": {"id": TEXT}, "required": ["id"]},
        step=COUNT)),
    Row("named process id that is not there", process("order", order_id=TEXT, step=COUNT), "process-id",
        "#/annotations/penstock~1process-id-field", "does not have"),
    Row("named process id that may be missing", process("order.id", order={"properties": {"id": TEXT}}, step=COUNT),
        "process-id", "#/annotations/penstock~1process-id-field", "not required"),
    Row("no order of a process", BUSINESS | {ORDERED_BY: []}, "process-order", "#/ordering_key_fields"),
    Row("ordered by parents", BUSINESS | {ORDERED_BY: ["metadata.parent_eids"]}),
    Row("ordered by nothing", BUSINESS | {ORDERED_BY: ["m"]}, "process-order",
        "#/ordering_key_fields/0", "no field 'm'"),
    Row("ordered by what may be missing", BUSINESS | {ORDERED_BY: ["step", "total"]}, "process-order",
        "#/ordering_key_fields/1", "not required"),
    Row("ordered by metadata that there is not", BUSINESS | {ORDERED_BY: ["metadata.version2"]}, "process-order",
        "#/ordering_key_fields/0", "no field"),
    Row("ordered by time", BUSINESS | {ORDERED_BY: ["metadata.occurred_at"]}, "order-not-by-time",
        "#/ordering_key_fields/0"),
    Row("no order of an entity", DATA | {ORDERED_BY: None}, "entity-order", "#/ordering_key_fields"),
    Row("ordered by a field without `data`", change("order_id version", ordering_key_fields=["version"])),
    Row("ordered by a field's format", change("order_id at", ordering_key_fields=["data.at"]), "order-not-by-time",
        "#/ordering_key_fields/0"),
    Row("no order at all", UNDEFINED | {ORDERED_BY: []}, "explicit-order", "#/ordering_key_fields"),
    Row("ordered by a field's name", UNDEFINED
        | {ORDERED_BY: ["created_at"], "schema": schema("eid", "created_at", eid=TEXT, created_at=COUNT)},
        "order-not-by-time", "#/ordering_key_fields/0"),
    Row("changes at random", DATA | {"partition_strategy": "random"}, "hash-partitioning", "#/partition_strategy"),
    Row("changes without strategy", DATA | {"partition_strategy": None}, "hash-partitioning", "#/partition_strategy"),
    Row("hashed by eid", change("eid order_id version", **{KEYED_BY: ["eid"]}), "hash-by-entity",
        "#/partition_key_fields/0", "each event"),
    Row("hashed by time", change("at order_id version", **{KEYED_BY: ["order_id", "at"]}), "hash-by-entity",
        "#/partition_key_fields/1", "moment"),
    Row("business hashed by its eid", BUSINESS | {"partition_strategy": "hash", KEYED_BY: ["metadata.eid"]},
        "hash-by-entity", "#/partition_key_fields/0"),
    Row("business hashed by its process", BUSINESS | {"partition_strategy": "hash", KEYED_BY: ["business_process_id"]}),
    Row("hashed by something else", change("order_id version customer", **{KEYED_BY: ["customer"]},
        **entity("order_id")), "hash-by-entity", "#/partition_key_fields/0", "none of the fields"),
    Row("hashed by a part of the entity",
        change("order_id version sku", **{KEYED_BY: ["sku"]}, **entity(" order_id , data.sku"))),
    Row("key that may be missing", change("order_id version", **{KEYED_BY: ["sku"]}), "key-fields-defined",
        "#/partition_key_fields/0", "not required"),
    Row("key with the prefix that is implied", DATA | {KEYED_BY: ["data.order_id"]}, "key-fields-defined",
        "#/partition_key_fields/0", "not in the schema"),
    Row("quoted key", DATA
        | {KEYED_BY: ["'order.id'"], "schema": schema("order.id", "version", **{"order.id": TEXT}, version=COUNT)}),
]  # fmt: skip

PROCESS = {"business_process_id": TEXT, "step": {"type": "integer"}}
REQUIRED = ["business_process_id", "step"]


def with_fields(*more: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """The business event type, whose events have more fields."""
    return with_schema(*more, properties=PROCESS | properties, required=REQUIRED)


def with_schema(*more: dict[str, Any], **schema: Any) -> dict[str, Any]:
    for each in more:
        schema |= each
    return BUSINESS | {"schema": described(schema)}


def keyword(name: str, value: Any = True) -> dict[str, Any]:
    return with_fields(a=TEXT | {name: value})


PAYLOAD = [
    Row("payload with metadata", with_fields(metadata=TEXT), "payload-only", "#/properties/metadata"),
    Row("metadata in a part of it", with_fields({"allOf": [{"properties": {"metadata": TEXT}}]}), "payload-only",
        "#/allOf/0/properties/metadata"),
    Row("metadata further in", with_fields(a={"properties": {"metadata": TEXT}})),
    Row("data with a field `data`", with_fields(data=TEXT)),
    Row("nullable", keyword("nullable"), "json-schema", "#/properties/a/nullable"),
    Row("example", keyword("example", "x"), "json-schema", "#/properties/a/example"),
    Row("discriminator", with_fields({"discriminator": {}}), "json-schema", "#/discriminator"),
    Row("extensible enum", keyword("x-extensible-enum", ["a"]), "json-schema", "#/properties/a/x-extensible-enum"),
    Row("a component", with_fields(a={"$ref": "#/components/schemas/A", "nullable": True}), "json-schema",
        "#/properties/a/$ref"),
    Row("a whole OpenAPI document", with_fields({"openapi": "3.0.3", "info": {}}), "json-schema", "#"),
    Row("a field called nullable", with_fields(nullable=TEXT, example=TEXT, xml=TEXT)),
    Row("an enum of what looks so", keyword("enum", [{"nullable": True}])),
    Row("open", with_fields({"additionalProperties": True}), "additional-properties", "#/additionalProperties", "may"),
    Row("closed", with_fields({"additionalProperties": False}), "additional-properties", "#/additionalProperties",
        "later"),
    Row("a map within an array", with_fields(a={"items": {"additionalProperties": TEXT}}), "additional-properties",
        "#/properties/a/items/additionalProperties", "map"),
    Row("a field called additionalProperties", with_fields(additionalProperties=TEXT)),
    Row("mail", with_fields(email=TEXT), "personal-data", "#/properties/email"),
    Row("mail by its format", with_fields(contact=TEXT | {"format": "email"}), "personal-data", "#/properties/contact"),
    Row("list of mails by their format", with_fields(contacts={"items": {"type": "string", "format": "idn-email"}}),
        "personal-data", "#/properties/contacts"),
    Row("phone within a branch", with_fields(a={"oneOf": [{"properties": {"mobilePhone": TEXT}}, {"type": "null"}]}),
        "personal-data", "#/properties/a/oneOf/0/properties/mobilePhone"),
    Row("mail by reference", with_fields({"definitions": {"a": {"properties": {"email_address": TEXT}}}},
        a={"$ref": "#/definitions/a"}), "personal-data", "#/definitions/a/properties/email_address"),
    Row("phone that nobody refers to", with_fields({"definitions": {"a": {"properties": {"phone": TEXT}}}})),
    Row("phone that is excluded", with_fields({"not": {"properties": {"phone": TEXT}, "required": ["phone"]}})),
    Row("whether there is a phone", with_fields(phone={"type": "boolean"}, email={"type": ["boolean", "null"]})),
    Row("whether there is one, by reference",
        with_fields({"definitions": {"yes": {"type": "boolean"}}}, phone={"$ref": "#/definitions/yes"})),
    Row("about a mail", with_fields(email_template_id=TEXT, phone_model=TEXT, headphones=TEXT, mobile=TEXT)),
]  # fmt: skip

ROWS = [*DECLARATION, *ORDERING, *PAYLOAD]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_definition_breaks_the_guideline_of_its_row_and_no_other(row: Row) -> None:
    findings = [finding for finding in check(row.definition) if finding.waived is None]

    expected = [] if row.rule is None else [(row.rule, row.pointer)]
    assert [(each.rule.id, each.pointer) for each in findings] == expected
    assert all(row.found in each.found for each in findings)


@pytest.mark.parametrize(
    ("properties", "required", "pointers"),
    [
        ({"customer": TEXT}, ["customer"], ["#/properties"]),
        ({"customer_id": TEXT}, ["customer_id"], ["#/properties"]),
        ({"id": TEXT}, [], ["#/properties/id"]),
        ({"id": TEXT}, ["id"], []),
        ({"orderNumber": TEXT}, ["orderNumber"], []),
        ({"sales_order_id": TEXT}, ["sales_order_id"], []),
    ],
)
def test_entity_is_recognized_by_its_usual_names(
    properties: dict[str, Any], required: list[str], pointers: list[str]
) -> None:
    payload = described({"properties": properties, "required": required})
    found = broken(DATA | {"partition_strategy": "random", "partition_key_fields": [], "schema": payload})

    assert [pointer for rule, pointer in found if rule == "entity-key"] == pointers


def test_key_of_the_partitions_names_the_entity() -> None:
    keyed = change("customer version", partition_key_fields=["customer"])

    assert broken(keyed) == []
    assert "entity-key" in dict(broken(keyed | {"partition_strategy": "random"}))
    missing = broken(change("order_id version", **entity("order")))  # The key is none of its fields either.
    assert missing[0] == ("entity-key", "#/annotations/penstock~1entity-key-fields")


@pytest.mark.parametrize("name", ["metadata", "data_type", "data_op"])
def test_members_of_a_data_change_are_no_part_of_its_payload(name: str) -> None:
    properties = {"order_id": TEXT, "version": TEXT, name: TEXT}
    definition = DATA | {"schema": described({"properties": properties, "required": ["order_id", "version"]})}

    assert broken(definition) == [("payload-only", f"#/properties/{name}")]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (None, "#/schema"),
        ("{}", "#/schema"),
        ({"type": "json_schema"}, "#/schema"),
        ({"type": "json_schema", "schema": "{"}, "#/schema"),
        ({"type": "json_schema", "schema": "[]"}, "#/schema"),
        (described({}), "#"),
        (described({"type": "object", "required": ["a"]}), "#"),
    ],
)
def test_event_type_needs_a_schema_that_names_fields(given: Any, pointer: str) -> None:
    assert ("payload-schema", pointer) in broken(DATA | {"schema": given})


def test_recursive_schema_is_checked_once() -> None:
    person = {"properties": {"phone": TEXT, "friends": {"items": {"$ref": "#/definitions/person"}}}}
    definition = with_fields(
        {"definitions": {"person": person}}, who={"$ref": "#/definitions/person"}, me={"$ref": "#"}
    )

    assert broken(definition) == [("personal-data", "#/definitions/person/properties/phone")]


def test_endless_and_odd_definitions_are_checked() -> None:
    text = '{"items":' * 100_000 + "{}" + "}" * 100_000
    assert "payload-schema" in [each.rule.id for each in check(DATA | {"schema": {"schema": text}})]
    for odd in (None, [], "x", 7, {}, {"schema": {"schema": "\ud800"}}, {"schema": {"schema": "["}}):
        check(odd)


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


@given(definition=DEFINITIONS, schema=SCHEMAS, base=st.sampled_from([BUSINESS, DATA, UNDEFINED]))
@settings(max_examples=examples(4, 100))
def test_finding_of_any_definition_is_one_printable_line(definition: Any, schema: Any, base: dict[str, Any]) -> None:
    for finding in check(base | definition) + check(base | {"schema": described(schema)}):
        assert GUIDELINES[finding.rule.id] is finding.rule
        assert finding.pointer.startswith("#")
        assert finding.line().isascii()
        assert finding.line().isprintable()


def finding(found: str, part: str = "definition", pointer: str = "#/name") -> GuidelineFinding:
    return GuidelineFinding(NAME_STYLE, part, pointer, found)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ("it is plain", "it is plain"),
        ("two\r\nlines\tand a tab", "two lines and a tab"),
        ('"quoted" \\ back', "'quoted' / back"),
        ("größer, \ud800, \x00, \u2028", "gr??er, ?, ?, "),
    ],
)
def test_line_of_a_finding_can_stand_in_a_header(found: str, line: str) -> None:
    assert finding(found).line() == f"SHOULD name-style: definition #/name: {line}"
    assert finding(found).advice == NAME_STYLE.advice


def test_line_of_a_finding_is_short() -> None:
    line = finding("x" * 5000, "schema", "#/a").line()

    assert len(line) == LINE_CHARS_MAX
    assert line.endswith("x...")


# Waivers.

UNOWNED = BUSINESS | {"owning_application": ""}


def test_waiver_keeps_the_finding_and_gives_the_reason() -> None:
    [found] = check(UNOWNED | {"annotations": {"penstock.waiver/ownership": " agreed with the platform "}})
    assert (found.rule.id, found.waived) == ("ownership", "agreed with the platform")

    [judged] = check(BUSINESS | {"annotations": {"penstock.waiver/matches-api": "it is computed"}})
    assert (judged.rule.id, judged.waived) == ("matches-api", "it is computed"), "people judge it, nevertheless"


def test_waiver_holds_for_one_guideline_wherever_it_is_broken() -> None:
    fields = schema("business_process_id", "step", business_process_id=TEXT, step=TEXT, email=TEXT, phone=TEXT)
    definition = UNOWNED | {"schema": fields, "annotations": {"penstock.waiver/personal-data": "for the courier"}}

    assert [(each.rule.id, each.waived) for each in check(definition)] == [
        ("ownership", None),
        ("personal-data", "for the courier"),
        ("personal-data", "for the courier"),
    ]


COURIER = "the courier calls"


@pytest.mark.parametrize(
    ("waivers", "reasons"),
    [
        ({"personal-data.phone": COURIER}, [COURIER, None, None]),
        ({"personal-data.stops.contact": COURIER}, [None, None, COURIER]),
        ({"personal-data.stops": COURIER}, [None, COURIER, COURIER]),
        ({"personal-data.stops.contact": COURIER, "personal-data": "else"}, ["else", "else", COURIER]),
        ({"personal-data.phone": " ", "personal-data": "else"}, ["else", "else", "else"]),
    ],
)
def test_waiver_of_a_field_holds_for_that_field_and_its_members(
    waivers: dict[str, str], reasons: list[str | None]
) -> None:
    stop = {"type": "object", "properties": {"address": TEXT, "contact": {"properties": {"email": TEXT}}}}
    fields = {"business_process_id": TEXT, "step": TEXT, "phone": TEXT, "stops": {"type": "array", "items": stop}}
    annotations = {WAIVER_PREFIX + waiver: reason for waiver, reason in waivers.items()}
    definition = BUSINESS | {"schema": schema("business_process_id", "step", **fields), "annotations": annotations}

    assert [each.waived for each in check(definition) if each.rule.id == "personal-data"] == reasons


@pytest.mark.parametrize(
    ("waiver", "reason", "found"),
    [
        ("ownershp", "x", "there is no guideline 'ownershp'"),
        ("", "x", "there is no guideline ''"),
        ("category", "x", "nothing breaks 'category': it can go"),
        ("personal-data.step", "x", "nothing breaks 'personal-data' at the field 'step': it can go"),
        ("persnal-data.step", "x", "there is no guideline 'persnal-data'"),
    ],
)
def test_waiver_that_waives_nothing_is_reported(waiver: str, reason: str, found: str) -> None:
    [about_waiver] = check(BUSINESS | {"annotations": {WAIVER_PREFIX + waiver: reason}})

    assert (about_waiver.rule.id, about_waiver.found, about_waiver.waived) == ("waiver", found, None)
    assert about_waiver.pointer == f"#/annotations/penstock.waiver~1{waiver}"


@pytest.mark.parametrize("reason", ["", "  "])
def test_waiver_without_a_reason_waives_nothing(reason: str) -> None:
    found, about_waiver = check(UNOWNED | {"annotations": {"penstock.waiver/ownership": reason}})

    assert (found.rule.id, found.waived) == ("ownership", None)
    assert about_waiver.found == "it gives no reason, so nothing is waived"


def test_other_annotations_are_no_waivers() -> None:
    assert check(BUSINESS | {"annotations": {"waiver/ownership": "x", "penstock.waiver": "x", "note": "x"}}) == []


# The list of the guidelines.


def test_guideline_is_described_in_sentences_and_has_a_key_for_waivers() -> None:
    for rule in GUIDELINES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
        assert 1 <= len(rule.id) <= 63
        assert WAIVER_PREFIX == "penstock.waiver/"
        assert rule.asks.endswith(".")
        assert rule.advice.endswith((".", "…"))
        assert rule.level in ("MUST", "SHOULD", "MAY")
        assert rule.source


def test_every_checked_guideline_has_a_row_that_breaks_it() -> None:
    shown = {row.rule for row in ROWS} | {"entity-key", "payload-schema", "waiver"}  # These have tests of their own.

    assert shown >= {rule.id for rule in GUIDELINES.values() if rule.is_checked}


def test_every_heading_of_the_event_guidelines_has_a_rule() -> None:
    headings = [rule.source for rule in GUIDELINES.values()]

    for asked in (
        *("part of the service interface", "useful business resources", "conform to Nakadi's API"),
        *("sensitive customer personal data", "business processes", "signal mutations", "explicit event ordering"),
        *("hash partition strategy", "match API representations", "ownership", "overall guidelines"),
        *("backwards compatibility", "additionalProperties", "unique event identifiers", "idempotent out-of-order"),
        *("event type names", "duplicate events"),
    ):
        assert any(asked in heading for heading in headings), asked
