"""Events are objects of the user's types, in every category; the producer's type may be a version newer."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import field, make_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest

import penstock.outbox
from penstock import AsyncClient, Client, DataChange
from penstock.errors import InvalidEvent
from penstock.schema.models import model_schema
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.postgres import PostgresCluster

AT = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)


class Types(NamedTuple):
    """The types of one program at one time."""

    order: Any
    line: Any

    def made(self, number: int, **more: Any) -> Any:
        """Return an order."""
        lines = [self.line(sku="a", price=Decimal("19.90"))]
        return self.order(order_id=number, placed_at=AT, lines=lines, customer=UUID(int=7), **more)


def structs(*, newer: bool) -> Types:
    more_of_line = [("color", str | None, None)] if newer else []
    line = msgspec.defstruct("Line", [("sku", str), ("price", Decimal), *more_of_line])
    more = [("voucher", dict[str, int] | None, None)] if newer else []
    members = [("order_id", int), ("placed_at", datetime), ("lines", list[line]), ("customer", UUID | None, None)]  # type: ignore[valid-type]
    return Types(msgspec.defstruct("Order", [*members, *more], rename="camel"), line)


def dataclasses(*, newer: bool) -> Types:
    more_of_line = [("color", str | None, field(default=None))] if newer else []
    line = make_dataclass("Line", [("sku", str), ("price", Decimal), *more_of_line])
    more = [("voucher", dict[str, int] | None, field(default=None))] if newer else []
    members = [("order_id", int), ("placed_at", datetime), ("lines", list[line])]  # type: ignore[valid-type]
    return Types(make_dataclass("Order", [*members, ("customer", UUID | None, field(default=None)), *more]), line)


def models(*, newer: bool) -> Types:
    config = pydantic.ConfigDict(extra="forbid", populate_by_name=True)
    more_of_line: Any = {"color": (str | None, None)} if newer else {}
    line = pydantic.create_model("Line", __config__=config, sku=(str, ...), price=(Decimal, ...), **more_of_line)
    more: Any = {"voucher": (dict[str, int] | None, None)} if newer else {}
    order = pydantic.create_model(
        "Order",
        __config__=config,
        order_id=(int, pydantic.Field(alias="orderId")),
        placed_at=(datetime, ...),
        lines=(list[line], ...),  # type: ignore[valid-type]
        customer=(UUID | None, None),
        **more,
    )
    return Types(order, line)


EACH_SORT = pytest.mark.parametrize("sort", [structs, dataclasses, models], ids=lambda sort: sort.__name__)
EACH_CATEGORY = pytest.mark.parametrize("category", ["undefined", "business", "data"])


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database file that a service and a hub share."""
    return tmp_path_factory.mktemp("shop") / "shop.db"


@pytest.fixture(scope="module")
def sqlite_hub(database: Path) -> Iterator[LiveHub]:
    """A hub for all tests of this file, on SQLite."""
    with live_hub(f"sqlite:///{database}") as hub:
        yield hub


@pytest.fixture(scope="module")
def postgres_hub(postgres_cluster: PostgresCluster) -> Iterator[LiveHub]:
    """The same on PostgreSQL."""
    with live_hub(postgres_cluster.create_database()) as hub:
        yield hub


@pytest.fixture(params=["sqlite_hub", "postgres_hub"])
def hub(request: pytest.FixtureRequest) -> LiveHub:
    """Each of them in turn."""
    found: LiveHub = request.getfixturevalue(request.param)
    return found


def in_event(record: Any, category: str) -> Any:
    return DataChange("order", "U", record) if category == "data" else record


def type_of(kind: Any, category: str) -> Any:
    return DataChange[kind] if category == "data" else kind


def orders(pages: list[Any], category: str) -> list[Any]:
    """Return what the events of *pages* hold, by number."""
    data = [event.data for page in pages for event in page.events]
    return sorted((each.data if category == "data" else each for each in data), key=lambda each: each.order_id)


def create(client: Client, name: str, category: str, types: Types) -> None:
    """Create an event type in the strictest mode, with the schema of *types*."""
    client.create_event_type(
        name,
        category=category,
        owning_application="shop",
        compatibility_mode="compatible",
        partition_count=2,
        schema=model_schema(types.order, business=category == "business"),
    )


def evolve(client: Client, name: str, category: str, types: Types) -> None:
    """Give it the schema of *types*."""
    text = msgspec.json.encode(model_schema(types.order, business=category == "business")).decode()
    client.replace_event_type(client.event_type(name) | {"schema": {"type": "json_schema", "schema": text}})


@EACH_SORT
@EACH_CATEGORY
@pytest.mark.anyio
async def test_consumer_with_the_older_type_reads_events_of_the_newer_one(
    hub: LiveHub, sort: Any, category: str
) -> None:
    name = f"{category}.{sort.__name__}"
    older, newer = sort(newer=False), sort(newer=True)
    new_orders = [newer.made(number, voucher={"percent": 5}) for number in range(3, 6)]
    new_orders[0].lines[0].color = "red"

    with Client(hub.url) as client:
        create(client, name, category, older)
        client.publish(name, [in_event(older.made(number), category) for number in range(3)])
        with pytest.raises(InvalidEvent, match=r"voucher|color"):
            client.publish(name, in_event(new_orders[0], category))
        evolve(client, name, category, newer)
        client.publish(name, (in_event(each, category) for each in new_orders))

        feed = client.feed(name, type=type_of(older.order, category))
        page = feed.read(feed.cursors())
        apart = [feed.read({partition: "_first"}) for partition in range(2)]
        later = client.feed(name, type=type_of(newer.order, category))
        with later.follow() as following:
            caught_up = [next(following)]
            while sum(len(each.events) for each in caught_up) < 6:
                caught_up.append(next(following))
    async with AsyncClient(hub.url) as client_of_tasks:
        async_feed = client_of_tasks.feed(name, type=type_of(older.order, category))
        async_page = await async_feed.read(await async_feed.cursors())

    expected = [older.made(number) for number in range(6)]
    assert orders([page], category) == expected
    assert orders(apart, category) == expected
    assert orders([async_page], category) == expected
    assert orders(caught_up, category) == [*(newer.made(number) for number in range(3)), *new_orders]
    versions = sorted(event.metadata.get("version", "none") for event in page.events)
    assert versions == (["none"] * 6 if category == "undefined" else ["1.0.0"] * 3 + ["1.1.0"] * 3)


@EACH_SORT
@EACH_CATEGORY
def test_outbox_takes_objects_of_user_types(sqlite_hub: LiveHub, database: Path, sort: Any, category: str) -> None:
    name, types = f"outbox.{category}.{sort.__name__}", sort(newer=False)
    with Client(sqlite_hub.url) as client:
        create(client, name, category, types)

        with closing(sqlite3.connect(database, isolation_level=None)) as shop, shop:
            shop.execute("BEGIN IMMEDIATE")
            penstock.outbox.publish(shop, name, in_event(types.made(1), category))
            many = [in_event(types.made(number), category) for number in (2, 3)]
            penstock.outbox.publish_many(shop, name, many, key=lambda _: "k")

        feed = client.feed(name, type=type_of(types.order, category))
        assert orders([feed.read(feed.cursors())], category) == [types.made(number) for number in (1, 2, 3)]
