"""What an event type says of itself, row by row: what breaks a guideline, and what looks like it and does not."""

import pytest

from tests.unit.core.guidelines.definitions import (
    BUSINESS,
    COUNT,
    DATA,
    TEXT,
    UNDEFINED,
    Row,
    assert_as_the_row_says,
    described,
    schema,
)

UNWAIVED = UNDEFINED | {"annotations": {}}
IDS = {"metadata": {"type": "object", "properties": {"eid": TEXT}, "required": ["eid"]}}

ROWS = [
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
    Row(
        "six by the statistic",
        BUSINESS | {"default_statistic": {"read_parallelism": 6, "write_parallelism": 4}},
        "partition-count",
        "#/default_statistic/read_parallelism",
        "4 and 8",
    ),
    Row(
        "the statistic's smaller one", BUSINESS | {"default_statistic": {"read_parallelism": 3, "write_parallelism": 4}}
    ),
    Row("256 partitions", BUSINESS | {"partition_count": 256}),
    Row("partitions that are no number", BUSINESS | {"partition_count": "many"}),
    Row("undefined without id", UNDEFINED | {"schema": schema("n", n=COUNT)}, "unique-ids", "#/required"),
    Row(
        "undefined with an id that may be missing",
        UNDEFINED | {"schema": schema("n", event_id=TEXT, n=COUNT)},
        "unique-ids",
        "#/required",
    ),
    Row("undefined with an id of another kind", UNDEFINED | {"schema": schema("id", "n", id=TEXT, n=COUNT)}),
    Row(
        "metadata by hand",
        UNDEFINED | {"schema": schema("metadata", "n", n=COUNT, **IDS)},
        "business-category",
        "#/category",
        "metadata.eid",
    ),
    Row(
        "change by hand",
        BUSINESS
        | {"schema": schema("bp_id", "step", bp_id=TEXT, step=COUNT, data_op=TEXT, data={"properties": {"a": TEXT}})},
        "data-category",
        "#/category",
        "data_op",
    ),
    Row(
        "id in each of the kinds",
        UNDEFINED
        | {
            "schema": described(
                {"properties": {"n": COUNT, "eid": TEXT}, "required": ["n"], "oneOf": [{"required": ["eid"]}] * 2}
            )
        },
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_declaration(row: Row) -> None:
    assert_as_the_row_says(row)
