import json
import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.core.event import NewEvent
from penstock.spark.columns import source_schema
from penstock.spark.messagedb.columns import SCHEMA as CATEGORY_COLUMNS
from penstock.spark.messagedb.options import NAMES as CATEGORY_NAMES
from penstock.spark.options import NAMES, parse_options
from penstock.spark.sink_options import SINK_NAMES
from penstock.spark.traversals.query import periodic
from penstock.testing.live_hub import LiveHub
from tests.docs.examples import ROOT, blocks

PAGE = ROOT / "docs" / "guides" / "spark.md"


def rows(heading: str) -> dict[str, str]:
    """The second cell of each row of the table under *heading*, by the first."""
    table = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (`.*?) \| (.*?) \|", table, re.MULTILINE))


def said_schema() -> dict[str, Any]:
    """The schema of order.placed, as the page says it."""
    found: dict[str, Any] = json.loads(next(block.text for block in blocks(PAGE) if block.language == "json"))
    return found


def test_its_programs_run(
    spark: SparkSession,
    hub: LiveHub,
    tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Client(hub.url) as client:
        client.create_event_type(
            "order.placed", partition_count=2, partition_strategy="user_defined", schema=said_schema()
        )
        client.create_event_type("order.large", partition_count=2)
        client.create_event_type("order.kept", partition_count=2)
        orders = (b'{"order_id": %d, "total": "12.50"}' % number for number in range(60))
        client.publish("order.placed", (NewEvent(order, partition=place % 2) for place, order in enumerate(orders)))
    monkeypatch.chdir(str(tmp_path))

    for block in blocks(PAGE):
        if block.language == "python" and "messagedb" not in block.text:
            program = block.text.replace("http://localhost:8080", hub.url)
            program = re.sub(
                '(f?")lake/', rf"\1{tmp_path}/lake/", program
            )  # The JVM keeps the directory that it began in.
            exec(compile(program, f"{PAGE.name}:{block.line}", "exec"), {"__name__": "example"})

    with Client(hub.url) as client:
        assert sum(each.head for each in client.partitions("order.kept")) == 60
    assert len(list((Path(str(tmp_path)) / "lake" / "customers").iterdir())) == 1
    said = capsys.readouterr().out
    assert (
        "60 orders\n60 orders in the lake\n750.0 in all\n10 orders of partition 0\n60 large orders\n1000 customers\n"
        in said
    )


def test_it_explains_every_option() -> None:
    assert [name.strip("`") for name in rows("Options")] == list(NAMES)


def test_it_explains_every_column_and_option_of_a_messagedb() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## MessageDB\n")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    explained = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]

    assert explained == [*CATEGORY_COLUMNS.names, *CATEGORY_NAMES]


def test_it_explains_every_option_and_column_of_what_is_published() -> None:
    published = PAGE.read_text(encoding="utf-8").partition("## Publish\n")[2].partition("\n## ")[0]
    explained = re.findall(r"^\| `(\w+)` \|", published, re.MULTILINE)

    assert explained == ["data", "key", "headers", "partition", "metadata", *SINK_NAMES]


def test_it_explains_every_argument_of_periodic() -> None:
    assert [name.strip("`") for name in rows("Periodic")] == list(signature(periodic).parameters)


def test_it_explains_every_column() -> None:
    explained = [name for cell in rows("Columns") for name in re.findall(r"`(\w+)`", cell)]

    options = parse_options({"url": "http://x", "eventType": "a", "payload": "both", "includeHeaders": "true"})
    assert explained == source_schema(options).names
