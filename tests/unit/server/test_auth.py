"""Every route names the permission that it needs, and one module asks for it."""

from pathlib import Path

import penstock.server
from penstock.server.routes import ROUTES

WITHOUT_PERMISSION = {
    *("/", "/docs", "/docs/{path}", "/health", "/health/live", "/health/ready", "/openapi.json", "/version"),
    *("/registry/enrichment-strategies", "/registry/partition-strategies"),
    *("/console", "/console/{path}"),
}


def test_routes_without_a_permission_tell_nothing_about_events() -> None:
    assert {each.path for each in ROUTES if each.needs is None} == WITHOUT_PERMISSION


def test_routes_that_change_something_need_more_than_to_view() -> None:
    writes = {f"{each.method} {each.path}" for each in ROUTES if each.method != "GET" and each.needs == "view"}
    assert writes == {
        "POST /event-types/{event_type}/cursor-distances",
        "POST /event-types/{event_type}/schemas/{version}/compatibility-check",
    }


def test_no_other_module_of_the_server_asks_for_permissions() -> None:
    folder = Path(penstock.server.__file__).parent
    asking = {path.name for path in folder.rglob("*.py") if "permissions.check(" in path.read_text(encoding="utf-8")}
    assert asking == {"auth.py"}
