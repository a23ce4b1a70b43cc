import json
import re
from collections.abc import Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.spark.columns import source_schema
from penstock.spark.foreign.messagedb import CategoryQuery
from penstock.spark.foreign.nakadi import SubscriptionQuery
from penstock.spark.foreign.query import option_names
from penstock.spark.foreign.zeroeventhub import FeedQuery
from penstock.spark.options import NAMES, parse_options
from penstock.spark.pipelines import ingest
from penstock.spark.sink_options import SINK_NAMES
from penstock.spark.traversals.query import periodic
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import README, ROOT, blocks
from tests.docs.sealed_orders import PROGRAMS, seal_orders
from tests.spark.categories import Categories
from tests.spark.events import events_in

SPARK = [
    ROOT / "docs" / "guides" / "spark" / f"{name}.md"
    for name in ("README", "reading", "streaming", "publishing", "other-sources", "cluster")
]
OPTIONS = ROOT / "docs" / "reference" / "spark.md"
PIPELINES = ROOT / "docs" / "guides" / "pipelines.md"
PROCESSORS = [ROOT / "docs" / "guides" / "processors" / f"{name}.md" for name in ("projections", "spark")]
HUB = "http://localhost:8080"
MESSAGE_DB = "postgresql://message_store@localhost:5432/message_store"
"""Where events are, as the guides say it."""
CUSTOMERS = ("Ada", "Bob", "Eve", "Kim")
"""Of the orders, each in a partition of its own."""


def schema_of_the_guide() -> dict[str, Any]:
    """The schema of order.placed, as the page says it."""
    found: dict[str, Any] = json.loads(next(block.text for block in blocks(SPARK[0]) if block.language == "json"))
    return found


@pytest.fixture(scope="module")
def orders(hub: LiveHub) -> str:
    """Sixty orders of four customers, as the guides expect them, and event types for derived events."""
    with Client(hub.url) as client:
        client.create_event_type(
            "order.placed",
            partition_count=4,
            partition_strategy="hash",
            partition_key_fields=["customer"],
            schema=schema_of_the_guide(),
        )
        client.create_event_type("order.large", partition_count=2)
        client.create_event_type("order.kept", partition_count=2)
        client.create_event_type("order.copied", partition_count=2)
        client.create_event_type("customer.totals", partition_count=2)
        client.publish(
            "order.placed",
            [{"order_id": n, "customer": CUSTOMERS[n % 4], "total": "12.50"} for n in range(60)],
        )
    return hub.url


def run_programs(pages: Sequence[Path], url: str, directory: Path, *, events: str = HUB) -> None:
    """Run the programs of *pages* that read from *events*, at *url* instead. They write to *directory*."""
    for page, block in ((each, block) for each in pages for block in blocks(each)):
        if block.language == "python" and (MESSAGE_DB in block.text) == (events == MESSAGE_DB):
            program = block.text.replace(events, url)
            # The JVM keeps the directory that it began in.
            program = program.replace('"lake/', f'"{directory}/lake/').replace('"/data/', f'"{directory}/data/')
            exec(compile(program, f"{page.name}:{block.line}", "exec"), {"__name__": "example"})


@pytest.mark.usefixtures("spark")
def test_spark_line_of_the_readme_shows_the_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [line] = [block.text for block in blocks(README) if "format(" in block.text]
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed")
        client.publish("order.placed", {"order_id": 7, "customer": "Ada"})
        program = f"from penstock.spark.laptop import session\nspark = session()\n{line.replace(HUB, hub.url)}"
        exec(compile(program, README.name, "exec"), {"__name__": "example"})

    assert '{"order_id":7' in capsys.readouterr().out


@pytest.mark.usefixtures("spark")
def test_programs_of_the_spark_guide_run(orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_programs(SPARK, orders, tmp_path)

    with Client(orders) as client:
        assert sum(each.head for each in client.partitions("order.kept")) == 60
        totals = [(event.data["customer"], event.data["total"]) for event in events_in(client, "customer.totals")]
        assert sorted(totals) == [(customer, 187.5) for customer in CUSTOMERS]
    assert len(list((tmp_path / "lake" / "customers").iterdir())) == 1
    said = capsys.readouterr().out
    assert (
        "60 orders\n60 orders in the lake\n60 large orders\n60 orders of the last 24 hours\n3 partitions were read\n"
        "5 orders of partition 0\n750.0 in all\n60 orders in files and at the hub\n60 orders of a remote feed\n" in said
    )
    assert said.endswith("60 orders of a subscription\n1000 customers\n")


@pytest.mark.usefixtures("spark")
def test_program_that_reads_a_messagedb_runs(
    message_db_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for category in ("account", "payment", "other"):
        Categories(message_db_url).fill(category, 20)

    run_programs(SPARK, message_db_url, tmp_path, events=MESSAGE_DB)

    assert capsys.readouterr().out == "40 events of accounts and payments\n"


@pytest.mark.usefixtures("spark")
def test_programs_of_the_pipelines_guide_run(orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_programs([PIPELINES], orders, tmp_path)

    said = capsys.readouterr().out
    assert "60 orders went into the lake\n60 orders are there\n40 orders in files\n" in said
    assert "60 orders forwarded\n" in said
    assert "2 orders imported\n" in said


@pytest.fixture
def customers(tmp_path: Path) -> Iterator[str]:
    """Sixty orders of three customers, as the guide to processors expects them."""
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type(
            "order.placed", partition_count=2, partition_strategy="hash", partition_key_fields=["customer"]
        )
        client.publish("order.placed", [{"order_id": n, "customer": f"{n % 3}", "total": float(n)} for n in range(60)])
        yield hub.url


@pytest.mark.exhaustive
def test_programs_of_the_processors_guide_run_on_spark(
    spark: SparkSession, customers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ingest(spark, f"{tmp_path}/lake/orders", url=customers, eventType="order.placed").awaitTermination(300)
    on_spark = [(page, block) for page in PROCESSORS for block in blocks(page) if "penstock.spark" in block.text]
    for page, block in on_spark:
        program = block.text.replace(HUB, customers).replace('"lake/', f'"{tmp_path}/lake/')
        program = program.replace("sqlite:///", f"sqlite:///{tmp_path}/")
        exec(compile(program, f"{page.name}:{block.line}", "exec"), {"__name__": "example"})

    assert capsys.readouterr().out == (
        "60 orders folded into a table\n3 customers in files\n60 orders scored\n60 orders in the lake\n"
    )


@pytest.mark.usefixtures("spark")
def test_program_of_the_cold_tier_page_reads_what_was_sealed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seal_orders(tmp_path)
    capsys.readouterr()  # The hub has logged what it has sealed.
    exec(PROGRAMS["pyspark"].text.replace('"cold/', f'"{tmp_path}/cold/'), {"__name__": "example"})

    assert capsys.readouterr().out == "10\n"


ALL_COLUMNS = parse_options({"url": "http://x", "eventType": "a", "payload": "both", "includeHeaders": "true"})


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Options", NAMES),
        ("Columns", source_schema(ALL_COLUMNS).names),
        ("Publish", ["data", "key", "headers", "partition", "metadata", *SINK_NAMES]),
        ("Periodic", [*signature(periodic).parameters]),
        ("MessageDB", [*CategoryQuery.columns.names, *option_names(CategoryQuery)]),
        ("Remote feeds", [*FeedQuery.columns.names, *option_names(FeedQuery)]),
        ("Nakadi", [*SubscriptionQuery.columns.names, *option_names(SubscriptionQuery)]),
    ],
)
def test_spark_reference_explains_every_option_and_column(heading: str, names: Sequence[str]) -> None:
    section = OPTIONS.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)

    assert [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)] == [*names]
