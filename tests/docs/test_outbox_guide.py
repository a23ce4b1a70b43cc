"""The service of docs/guides/outbox.md commits orders and their events together."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from penstock.client import Client
from penstock.testing.live_hub import live_hub
from tests.docs.examples import ROOT, blocks

GUIDE = ROOT / "docs" / "guides" / "outbox.md"


def test_service_of_the_guide_publishes_an_order_only_if_it_commits_it(tmp_path: Path) -> None:
    [program] = [block for block in blocks(GUIDE) if "FastAPI" in block.text]
    orders = [json.loads(text) for text in re.findall(r"--json '(.*)'", GUIDE.read_text(encoding="utf-8"))]
    service: dict[str, Any] = {"__name__": "shop"}
    exec(compile(program.text.replace("shop.db", f"{tmp_path}/shop.db"), GUIDE.name, "exec"), service)

    with live_hub(f"sqlite:///{tmp_path}/shop.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=4, partition_key_fields=["customer"])
        with TestClient(service["app"]) as shop:
            statuses = [shop.post("/orders", json=order).status_code for order in orders]
        feed = client.feed("order.placed")
        events = [event.data for event in feed.read(feed.cursors()).events]

    assert statuses == [201, 403]
    assert events == [{"order_id": 1, **orders[0]}]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        assert connection.execute("SELECT customer, total FROM orders").fetchall() == [("Ada", "12.50")]
