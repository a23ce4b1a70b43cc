"""Every route checks permissions, but those that show nothing of the contents of the hub."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.errors import Forbidden
from penstock.hub.admin.permissions import Permissions
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.storage import open_store
from penstock.testing.factories import an_event_type

NAME = "order.placed"
OPEN = {
    *("/", "/version", "/docs", "/openapi.json", "/health", "/health/live", "/health/ready"),
    *("/registry/enrichment-strategies", "/registry/partition-strategies"),
}
IN_PATH = {"event_type": NAME, "partition": "0", "version": "latest", "type": "CONSUMER_ET", "name": NAME, "id": "x"}
IN_PATH |= {"group": "g", "first": "0", "parked": "1"}
IN_PATH |= dict.fromkeys(("subscription", "stream"), "038fc871-1d2c-4e2e-aa29-1579e8f2e71f")
IN_PATH |= {"upload": "038fc871-1d2c-4e2e-aa29-1579e8f2e71f", "chunk": "0", "batch": "0"}


def test_every_route_with_contents_checks_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody_may(*_: Any) -> None:
        raise Forbidden("nobody may")

    async def main() -> dict[str, int]:
        hub = Hub(open_store(f"sqlite:///{tmp_path}/hub.db"))
        hub.store.migrate()
        hub.registry.create(an_event_type(NAME))
        app = HubApp(lambda: hub)
        transport = httpx2.ASGITransport(app)
        async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://hub") as http:
            described = (await http.get("/openapi.json")).json()["paths"]
            monkeypatch.setattr(Permissions, "check", nobody_may)
            return {
                f"{method} {path}": (await http.request(method, path.format_map(IN_PATH), json={})).status_code
                for path, methods in described.items()
                for method in methods
            }

    found = asyncio.run(main())

    assert {asked for asked, status in found.items() if status != 403} == {f"get {path}" for path in OPEN}
