"""`penstock event-type from-model`: a class of the user becomes an event type that takes its instances."""

import json
import subprocess

import pytest

from penstock.client import Client
from tests.cli.command import PENSTOCK, Command

MODULE = '''
import datetime as dt
from typing import Annotated

import msgspec
import pydantic

from penstock import DataChange

print("This module talks.")


class OrderPlaced(msgspec.Struct):
    """A customer has placed an order."""

    order_id: int
    placed_at: dt.datetime
    process_id: str
    note: str | None = None


class Customer(pydantic.BaseModel):
    customer_id: int = pydantic.Field(alias="customerId")
    version: int = 0


CustomerChange = DataChange[Customer]


class Category(msgspec.Struct):
    """It holds others of its own kind."""

    title: str
    within: "Category | None" = None


class Ahead(msgspec.Struct):
    sku: Annotated[str, msgspec.Meta(pattern="^(?=a)")]
'''


@pytest.fixture
def shop(at_hub: Command) -> Command:
    """The command, in a directory with a module of the user."""
    (at_hub.directory / "shop").mkdir()
    (at_hub.directory / "shop" / "events.py").write_text(MODULE)
    return at_hub


def test_module_is_found_although_python_does_not_look_in_the_current_directory(shop: Command) -> None:
    words = ("event-type", "from-model", "shop.events:OrderPlaced", "--schema-only")
    environment = shop.environment | {"PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [*PENSTOCK, *words], cwd=shop.directory, env=environment, check=False, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "This module talks.\n")
    assert json.loads(done.stdout) == shop(*words).json


def test_definition_is_printed_in_the_shape_of_nakadi(shop: Command) -> None:
    options = ("--category", "business", "--owning-application", "shop", "--partition-key-field", "order_id")
    ordered = ("--ordering-key-field", "placed_at", "--compatibility-mode", "forward")

    made = shop("event-type", "from-model", "shop.events:OrderPlaced", *options, *ordered)
    schema = shop("event-type", "from-model", "shop.events:OrderPlaced", "--schema-only").json

    definition = made.json
    assert json.loads(definition["schema"].pop("schema")) == schema
    assert definition == {
        "name": "order.placed",
        "owning_application": "shop",
        "category": "business",
        "enrichment_strategies": ["metadata_enrichment"],
        "schema": {"type": "json_schema"},
        "partition_strategy": "hash",
        "partition_key_fields": ["order_id"],
        "ordering_key_fields": ["placed_at"],
        "compatibility_mode": "forward",
    }
    assert schema["required"] == ["order_id", "placed_at", "process_id"]
    assert made.err == "This module talks.\n"


@pytest.mark.parametrize(
    ("model", "category", "event"),
    [
        (
            "OrderPlaced",
            "business",
            {"order_id": 1, "placed_at": "2026-11-20T10:00:00Z", "process_id": "p", "note": None},
        ),
        ("CustomerChange", "data", {"data_type": "customer", "data_op": "C", "data": {"customerId": 1, "version": 0}}),
    ],
)
def test_printed_definition_creates_an_event_type_that_takes_such_events(
    shop: Command, model: str, category: str, event: dict[str, object]
) -> None:
    name = f"made.{model.lower()}"
    made = shop("event-type", "from-model", f"shop.events:{model}", "--name", name, "--category", category)

    created = shop("event-type", "create", "--file", "-", stdin=made.out)
    published = shop("publish", name, stdin=json.dumps(event))
    refused = shop("publish", name, stdin=json.dumps(event | {"stranger": 1}))

    assert (created.status, created.err) == (0, "")
    assert published.status == 0, published.err
    assert refused.status == 1  # The mode is `compatible`: what no schema names does not pass.
    with Client(shop.environment["PENSTOCK_URL"]) as client:
        assert client.event_type(name)["compatibility_mode"] == "compatible"


def test_printed_yaml_can_be_checked_and_applied(shop: Command) -> None:
    options = "--category business --owning-application shop --name made.from.yaml --ordering-key-field placed_at"
    made = shop("event-type", "from-model", "shop.events:OrderPlaced", *options.split(), "--yaml")
    file = shop.directory / "made.yaml"
    file.write_text(made.out)

    checked = shop("event-type", "check", file, "-o", "json")
    applied = shop("event-type", "apply", file)

    assert "placed_at:\n" in made.out
    assert checked.status == 0, checked.out
    assert (applied.status, applied.err) == (0, ""), applied.out
    schema = shop("event-type", "from-model", "shop.events:OrderPlaced", "--schema-only", "--yaml")
    assert schema.out.startswith("title: OrderPlaced\n")


def test_printed_yaml_has_no_aliases(shop: Command) -> None:
    made = shop("event-type", "from-model", "shop.events:Category", "--yaml")

    assert made.out.count("description: It holds others of its own kind.") == 2
    assert "&id" not in made.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["OrderPlaced", "--name", "order placed"], 'Field "name" must match'),
        (["OrderPlaced", "--ordering-key-field", "id"], "which has no 'id'"),
        (["Ahead"], "#/properties/sku"),
    ],
    ids=["name", "ordering", "pattern"],
)
def test_definition_that_a_hub_would_refuse_is_not_printed(shop: Command, arguments: list[str], says: str) -> None:
    refused = shop("event-type", "from-model", f"shop.events:{arguments[0]}", *arguments[1:])

    assert (refused.status, refused.out) == (1, "")
    assert says in refused.err
