"""The files that the programs of docs/reference/cold-tier.md read."""

import json
from pathlib import Path
from typing import Final

from penstock.core.events.event import NewEvent
from penstock.hub.cold.tables import update_tables
from penstock.hub.hub import Hub
from penstock.testing.clock import VirtualClock
from tests.docs.examples import ROOT, blocks
from tests.promises.scene import create, event
from tests.sealing import seal, sealing_hub

PAGE: Final = ROOT / "docs" / "reference" / "cold-tier.md"
PROGRAMS: Final = {
    block.text.split()[1].partition(".")[0]: block for block in blocks(PAGE) if block.language == "python"
}
PEOPLE: Final = ("Ada", "Bob", "Cyd")
ORDERS: Final = 30
"""A third of them Ada's."""


def members(**types: str) -> dict[str, str]:
    """Return the schema of an event type whose events have members of these types."""
    schema = {"type": "object", "properties": {name: {"type": each} for name, each in types.items()}}
    return {"type": "json_schema", "schema": json.dumps(schema)}


def seal_orders(directory: Path) -> None:
    """Have a hub seal orders of three people beside *directory*, each of one cent more than the one before."""
    clock = VirtualClock()
    with sealing_hub(
        f"sqlite:///{directory}/shop.db", (directory / "cold").as_uri(), clock=clock, has_tables=True
    ) as hub:
        create(hub, "order.placed", partitions=2, schema=members(cents="integer"))
        orders = [
            NewEvent.of(json.dumps({"cents": n}).encode(), partition=n % 2, key=PEOPLE[n % 3]) for n in range(ORDERS)
        ]
        last = [NewEvent.of(b'{"cents": 0}', partition=each, key="last") for each in range(2)]
        for each in (orders, last):
            hub.log.publish("order.placed", each)
        clock.advance(seconds=1)
        seal(hub)
        seal_two_versions(hub, clock)
        assert update_tables(hub.store)


def seal_two_versions(hub: Hub, clock: VirtualClock) -> None:
    """Seal events in two files, the second one after their event type's schema has got another member."""
    create(hub, "order.billed", schema=members(cents="integer"), compatibility_mode="none")
    for n, own in enumerate(({"cents": "integer"}, {"cents": "integer", "name": "string"})):
        if n:
            definition = hub.registry.load("order.billed").event_type.whole | {"schema": members(**own)}
            hub.registry.replace("order.billed", definition)
        hub.log.publish("order.billed", [event({"cents": n, "name": "Ada"}), event({"cents": n, "name": "Bob"})])
        clock.advance(seconds=1)
        seal(hub)
