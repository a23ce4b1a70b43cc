"""Programs of the guides on processors, reactions, duplicates and order run as written, and do what the pages say."""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.processing import DatabaseCheckpoints, InlineProcessor, StreamEvent
from penstock.processing.sources import MemorySource
from penstock.testing.factories import a_business_event, a_data_event
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, blocks
from tests.processing.office import until
from tests.processing.programs import output, running

GUIDES = ROOT / "docs" / "guides"
PROCESSORS = sorted((GUIDES / "processors").glob("*.md"))
PROGRAMS = {
    page.stem: [
        block.text
        for block in blocks(page)
        if block.language == "python" and "penstock.spark" not in block.text  # tests/spark runs those.
    ]
    for page in (
        *PROCESSORS,
        *(GUIDES / f"{name}.md" for name in ("watching-processors", "reactions", "duplicates-and-order")),
    )
}
CREATED = r"^penstock event-type create (\S+) --partition-key-field (\w+)$"
CUSTOMERS = ("Ada", "Bob", "Cyd")
ORDERS = {name: [*range(start, 30, 3)] for start, name in enumerate(CUSTOMERS)}
TOTALS = {name: float(sum(numbers)) for name, numbers in ORDERS.items()}
PARCEL_KINDS = ("parcel.packed", "parcel.sent", "parcel.delivered")
PRICES = [("cup", 1), ("cup", 3), ("jug", 1), ("cup", 2), ("jug", 2), ("cup", 3)]
CUSTOMERS_V1 = 'Projection("customers", Customer, placed)'
CUSTOMERS_V2 = "version=2)"


def program(text: str, hub: LiveHub) -> str:
    """Return the program that contains *text*, for this hub."""
    [found] = [each for programs in PROGRAMS.values() for each in programs if text in each]
    return found.replace("http://localhost:8080", hub.url)


def order(number: int) -> dict[str, Any]:
    return {"order_id": number, "customer": CUSTOMERS[number % 3], "total": float(number)}


def move(parcel: str, kind: str) -> NewEvent:
    return NewEvent.of(json.dumps({"parcel": parcel, "customer": "Ada"}).encode(), headers={"ce_type": kind})


def read(hub: LiveHub, name: str) -> list[Any]:
    with Client(hub.url) as client, client.feed(name) as feed:
        return [event.data for event in feed.read(feed.cursors(), page_size_hint=1000).events]


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, timeout=300)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub with the events of the guides on processors and reactions."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        page = (GUIDES / "processors" / "README.md").read_text(encoding="utf-8")
        for name, key in re.findall(CREATED, page, re.MULTILINE):
            client.create_event_type(name, partition_count=2, partition_strategy="hash", partition_key_fields=[key])
        client.create_event_type("invoice.sent", category="business", partition_count=2)
        client.create_event_type("order.copied", partition_count=2)
        client.publish("order.placed", [order(number) for number in range(30)])
        client.publish("parcel.moved", [move(parcel, kind) for kind in PARCEL_KINDS for parcel in ("P1", "P2")])
        prices = [{"product": name, "version": version, "price": float(version)} for name, version in PRICES]
        client.publish("product.changed", prices)
        yield hub


@pytest.fixture
def run(shared_hub: LiveHub, tmp_path: Path) -> Callable[[str], str]:
    """Runs the program that contains a text to its end, and returns what it prints."""
    return lambda text: output(program(text, shared_hub), tmp_path)


def test_first_processor_handles_all_orders_by_customer_and_resumes(run: Callable[[str], str]) -> None:
    found: dict[str, list[int]] = {name: [] for name in CUSTOMERS}
    for name, numbers in re.findall(r"order\.placed-(\w+): \[(.*?)\]", run("def greet(stream, events):\n    print(f")):
        found[name] += map(int, numbers.split(", "))
    assert found == ORDERS
    assert run("def greet(stream, events):\n    print(f") == ""


def test_decorated_handler_prints_orders_and_ends_on_sigterm(shared_hub: LiveHub, tmp_path: Path) -> None:
    def has_committed() -> bool:
        groups = client.consumer_groups(kind="processor")
        return [group.gap for group in groups if group.name == "mailer"] == [0]

    with (
        Client(shared_hub.url) as client,
        running("-c", program('group="mailer"', shared_hub), directory=tmp_path) as mailer,
    ):
        until(has_committed)
        printed = mailer.terminate()

    assert sorted(map(int, re.findall(r"order (\d+) of", printed))) == list(range(30))


def test_customer_without_an_address_is_parked_at_the_hub(shared_hub: LiveHub, tmp_path: Path) -> None:
    def parked() -> list[str]:
        groups = client.consumer_groups(kind="processor")
        has_begun = any(group.name == "shipper" for group in groups)
        return [each.stream for each in client.parked_streams("shipper")] if has_begun else []

    with (
        Client(shared_hub.url) as client,
        running("-c", program("def ship(event)", shared_hub), directory=tmp_path) as shipper,
    ):
        until(lambda: parked() == ["order.placed-Bob"])
        shipped = 20
        lines = [shipper.line() for _ in range(shipped)]
        shipper.terminate()

    assert len(re.findall(r"order \d+ goes to (?:Oslo|Voss)", "\n".join(lines))) == shipped


def test_processor_commits_its_work_on_sigterm(shared_hub: LiveHub, tmp_path: Path) -> None:
    with running("-c", program("def watch(", shared_hub), directory=tmp_path) as watcher:
        printed = ""  # Two threads may print into one line.
        while sum(map(int, re.findall(r": (\d+) orders", printed))) < 30:
            line = watcher.line()
            assert line or watcher.fork.poll() is None, watcher.errors()
            printed += f"{line}\n"
        watcher.terminate()
    with Client(shared_hub.url) as client:
        groups = client.consumer_groups(kind="processor")
    assert [group.gap for group in groups if group.name == "watcher"] == [0]


def test_stream_that_cannot_be_shipped_is_parked_and_shipped_after_a_retry(
    run: Callable[[str], str], tmp_path: Path
) -> None:
    printed = run("def ship(stream")
    assert re.findall(r"(\d+) parcels to (Oslo|Voss|Bergen)", printed)[-1] == ("10", "Bergen")
    assert re.search(r"^parked: order\.placed-Bob, 10 events from \d+ on, KeyError: 'Bob'$", printed, re.MULTILINE)
    assert not DatabaseCheckpoints(f"sqlite:///{tmp_path}/shipping.db", "shipping").parked()


def test_turnover_in_the_transaction_of_the_checkpoint_counts_each_order_once(
    run: Callable[[str], str], tmp_path: Path
) -> None:
    for _ in range(2):
        run("def add(connection")
        found = rows(tmp_path / "shop.db", "SELECT * FROM turnover ORDER BY stream")
        assert found == [(f"order.placed-{name}", 10, TOTALS[name]) for name in CUSTOMERS]


def test_projection_is_rebuilt_as_another_version_and_switched_to(run: Callable[[str], str], tmp_path: Path) -> None:
    run(CUSTOMERS_V1)
    found = rows(tmp_path / "shop.db", "SELECT * FROM customers ORDER BY key")
    assert found == [(name, 10, TOTALS[name]) for name in CUSTOMERS]
    run(CUSTOMERS_V2)
    found = rows(tmp_path / "shop.db", "SELECT * FROM customers ORDER BY key")
    assert found == [(name, 10, TOTALS[name], float(ORDERS[name][-1])) for name in CUSTOMERS]
    assert len(rows(tmp_path / "shop.db", "SELECT * FROM customers_v1")) == 3


def test_projection_with_a_key_of_two_fields_has_a_column_for_each(run: Callable[[str], str], tmp_path: Path) -> None:
    run("class Price(NamedTuple)")
    sizes = Counter((name, "large" if n >= 15 else "small") for name, numbers in ORDERS.items() for n in numbers)
    found = rows(tmp_path / "shop.db", "SELECT customer, size, orders FROM sizes")
    assert sorted(found) == sorted((*key, count) for key, count in sizes.items())


def test_event_driven_handler_is_called_by_kind(run: Callable[[str], str]) -> None:
    printed = run("def sent(")
    assert sorted(re.findall(r"tell Ada that (P\d) is on its way", printed)) == ["P1", "P2"]
    assert sorted(re.findall(r"(P\d) has come", printed)) == ["P1", "P2"]
    assert printed.endswith("2 ignored\n")


def test_ingest_writes_only_newer_versions(run: Callable[[str], str], tmp_path: Path) -> None:
    run("def ingest(")
    assert rows(tmp_path / "prices.db", "SELECT * FROM prices ORDER BY product") == [("cup", 3, 3.0), ("jug", 2, 2.0)]
    assert run("def ingest(") == "0 prices changed\n"


def test_streams_handled_together_are_archived(run: Callable[[str], str], tmp_path: Path) -> None:
    run("def archive(")
    assert rows(tmp_path / "archive.db", "SELECT order_id FROM orders ORDER BY 1") == [(n,) for n in range(30)]


def test_deferred_stream_is_thanked_once_it_is_quiet(run: Callable[[str], str]) -> None:
    found = re.findall(r"thank (\w+) for (\d+) orders", run("def thank("))
    assert sorted(found) == [(name, "10") for name in CUSTOMERS]


def test_inline_program_advances_time_itself(run: Callable[[str], str]) -> None:
    assert run("InlineProcessor(open_account") == "opened\n"


def test_watched_processor_prints_its_figures(run: Callable[[str], str], shared_hub: LiveHub, tmp_path: Path) -> None:
    text = program("serve_metrics(9464", shared_hub).replace("serve_metrics(9464", "serve_metrics(0")
    with running("-c", text, directory=tmp_path) as greeter:
        assert len(greeter.end().splitlines()) == 30
        assert re.search(r"^greeter: 30 events handled, .*, 0 behind, ", greeter.errors().splitlines()[-1])


def test_shoulder_tap_drops_events_that_the_projection_has_passed(
    run: Callable[[str], str], shared_hub: LiveHub, tmp_path: Path
) -> None:
    run(CUSTOMERS_V1)
    text = program("def summarise(", shared_hub)
    text = text.replace("LocalProcessor\n", "LocalProcessor, Rules\n").replace(
        "checkpoints=", "rules=RULES, checkpoints="
    )
    text = text.replace("HUB =", "RULES = Rules(events_per_call=1, attempts_max=1)\nHUB =")
    found = re.findall(r"(Ada|Bob|Cyd) has (\d+) orders", output(text, tmp_path))  # Threads may share a line.
    assert sorted(found) == [(name, "10") for name in CUSTOMERS]


def test_shoulder_tap_and_pre_flight_check_wait_for_the_projection_across_a_switch(
    hub: LiveHub, tmp_path: Path
) -> None:
    with Client(hub.url) as client:
        more = {"partition_strategy": "hash", "partition_key_fields": ["customer"]}
        client.create_event_type("order.placed", partition_count=2, more=more)
        client.publish("order.placed", [order(number) for number in range(30)])
        output(program(CUSTOMERS_V1, hub), tmp_path)
        client.publish("order.placed", [order(number) for number in range(30, 36)])
        with (
            running("-c", program("def summarise(", hub), directory=tmp_path) as summing,
            running("-c", program("def reward(", hub), directory=tmp_path) as rewarding,
        ):
            until(lambda: len(client.consumer_groups(kind="processor")) == 2)
            output(program(CUSTOMERS_V2, hub), tmp_path)
            summaries, rewards = summing.end(), rewarding.end()
    for name in CUSTOMERS:
        assert re.findall(rf"{name} has (\d+) orders", summaries) == ["10", "12"]
    found = {int(number): spent for number, spent in re.findall(r"order (\d+): \w+ has spent (\d+\.\d+)", rewards)}
    totals = [f"{sum(range(customer, 36, 3)):.2f}" for customer in range(3)]
    assert found == {number: totals[number % 3] for number in range(36)}


def test_reactions_publish_copy_and_count_once_when_run_twice(
    run: Callable[[str], str], shared_hub: LiveHub, tmp_path: Path
) -> None:
    for text, printed in (
        ("def invoice(", "all orders have their invoice\n"),
        ("class Collecting", "one invoice for five orders\n"),
        ("HubTarget(other", "copied\n"),
        ("together = Batcher(add)", "counted\n"),
    ):
        assert [run(text) for _ in range(2)] == [printed] * 2
    sent = read(shared_hub, "invoice.sent")
    assert Counter(each["order_id"] for each in sent if "order_id" in each) == Counter(range(30))
    collected = [each["orders"] for each in sent if "orders" in each]
    assert {len(each) for each in collected} == {5}
    assert Counter(order for each in collected for order in each) == Counter(range(30))
    assert Counter(each["order_id"] for each in read(shared_hub, "order.copied")) == Counter(range(30))
    counted = rows(tmp_path / "totals.db", "SELECT sum(orders) FROM totals")
    assert counted == [(60,)], "it keeps no checkpoint"


PRODUCT = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "version": {"type": "integer"}, "name": {"type": "string"}},
}
CHANGES = [(1, 10, "U"), (1, 9, "C"), (2, 5, "D"), (2, 4, "U"), (2, 3, "C"), (3, 1, "S"), (1, 10, "U")]
MOVES = (("Oslo", 3, 2), ("Bergen", 1), ("Voss", 2, 1))


def change(entity: int, version: int, data_op: str) -> dict[str, object]:
    event = a_data_event(data_op=data_op, metadata={"eid": str(UUID(int=100 * entity + version))})
    return event | {"data": {"id": entity, "version": version, "name": f"name {version}"}}


def move_after(place: str, number: int, *parents: int) -> dict[str, object]:
    return a_business_event(
        number, parcel="P1", place=place, metadata={"parent_eids": [str(UUID(int=parent)) for parent in parents]}
    )


@pytest.fixture(scope="module")
def disordered_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub as the guide on duplicates and order expects it: with repeats, and with events out of order."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", category="business", partition_count=2)
        orders = [a_business_event(number, total="19.90") for number in range(20)]
        client.publish("order.placed", orders + orders[::-2])
        ordering = {"ordering_key_fields": ["data.version"], "ordering_instance_ids": ["data.id"]}
        client.create_event_type("product.changed", category="data", schema=PRODUCT, **ordering)
        client.publish("product.changed", [change(*each) for each in CHANGES])
        client.create_event_type("parcel.moved", category="business")
        client.publish("parcel.moved", [move_after(*each) for each in MOVES])
        yield hub


@pytest.mark.parametrize(
    ("database", "query", "expected"),
    [
        ("billing", "SELECT order_id FROM invoices ORDER BY order_id", [(n,) for n in range(20)]),
        ("search", "SELECT * FROM products ORDER BY id", [(1, "name 10"), (3, "name 1")]),
        ("prices", "SELECT id, version, gone FROM prices ORDER BY id", [(1, 10, 0), (2, 5, 1), (3, 1, 0)]),
        ("tracking", "SELECT place FROM moves ORDER BY rowid", [("Bergen",), ("Voss",), ("Oslo",)]),
    ],
    ids=["Duplicates", "Latest", "Known", "Resequencer"],
)
def test_consumer_has_its_table_right_after_repeats_and_disorder(
    disordered_hub: LiveHub, tmp_path: Path, database: str, query: str, expected: list[Any]
) -> None:
    text = program(f'"{database}.db", isolation_level', disordered_hub)
    with running("-c", text, directory=tmp_path) as consumer:
        assert consumer.line(), consumer.errors()
        until(lambda: rows(tmp_path / f"{database}.db", query) == expected)


def test_histories_are_put_in_order(disordered_hub: LiveHub, tmp_path: Path) -> None:
    lines = ["1 ['C', 'U']", "2 ['C', 'U', 'D']", "3 ['S']", "P1 ['Bergen', 'Voss', 'Oslo']"]
    assert output(program("steps = sort_events(", disordered_hub), tmp_path).splitlines() == lines


def test_handler_of_the_guide_tells_its_statistics() -> None:
    [text] = [each for each in PROGRAMS["watching-processors"] if "Stats()" in each]
    names: dict[str, Any] = {}
    exec(text, names)
    source = MemorySource()
    source.deliver([StreamEvent("S1", at, "order", b'{"total": 17.5}') for at in range(3)])
    processor = InlineProcessor(names["settle"], source)
    processor.drain()

    found = processor.snapshot
    assert (found.counts, found.gauges) == ({"settled": 3}, {"unsettled": 12.0})
    assert (found.observed["order_value_eur"].count, found.observed["order_value_eur"].sum) == (3, 52.5)


def test_periodic_program_goes_through_both_tranches(run: Callable[[str], str]) -> None:
    orders = [f"order-{number}: {{'number': {number}}}" for number in range(3)]
    assert sorted(run("def crawl_customers(").splitlines()) == ["customer-7: {'name': 'Ada'}", *orders]


def test_programs_of_the_guides_are_as_many_as_are_tested_here() -> None:
    counts = {guide: len(programs) for guide, programs in PROGRAMS.items()}
    assert {name: count for name, count in counts.items() if count} == {
        "README": 2,
        "failures": 1,
        "idempotent-handlers": 5,
        "many-streams": 1,
        "projections": 3,
        "running": 3,
        "sources": 1,
        "transactions": 1,
        "watching-processors": 2,
        "reactions": 4,
        "duplicates-and-order": 5,
    }
