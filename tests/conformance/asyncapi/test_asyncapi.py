"""The description of event types is valid to AsyncAPI's own parser, and tells a caller what it may see and do."""

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from penstock.core.access import Caller
from penstock.core.registry.event_type import EventType
from penstock.server.authentication.tokens import TokenMethod
from penstock.testing.clock import START_AT
from penstock.testing.factories import an_event_type
from tests.served import problem_of
from tests.server.in_process import Here, open_hub, serve

ROOT: Final = Path(__file__).parents[3]
DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
METADATA: Final = {"eid": "7c1d5a4e-3b0f-4d57-9a55-0f6e0b0a4b11", "occurred_at": "2026-01-01T12:00:00Z"}


def keyed_by(field: str) -> dict[str, Any]:
    return {"partition_strategy": "hash", "partition_key_fields": [field]}


ODD: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "anything": ({}, {}),
    "nested.definitions.of-2": (
        {
            "$schema": DRAFT_7,
            "$id": "https://example.com/schema",
            "$defs": {"a b/c~d%41 ü": {"type": "integer"}, "a b/c~dA ü": {"type": "null"}},
            "properties": {
                "größe": {"$ref": "#/$defs/a%20b~1c~0d%2541%20%C3%BC"},
                "both": {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
            },
            "examples": [{"größe": 4}, "no object", {"größe": {"$ref": "http://127.0.0.1:1/schema"}}],
        },
        keyed_by("größe"),
    ),
    "references.that.are.none": (
        {
            "properties": {
                "$ref": {"type": "string"},
                "choice": {"enum": [{"$ref": "file:///etc/passwd"}]},
                "price": {"type": "number", "minimum": 1, "exclusiveMinimum": True},
                "other": {"discriminator": {"a": 1}, "externalDocs": "x", "deprecated": "no", "const": 3},
            }
        },
        {},
    ),
    "tree": (
        {
            "title": "Tree",
            "description": "A tree.\nWith branches.",
            "properties": {"id": {"type": "string"}, "branches": {"type": "array", "items": {"$ref": "#"}}},
            "examples": [{"id": "x"}],
        },
        {"category": "business", **keyed_by("id")},
    ),
    "change": (
        {"definitions": {"row": {"properties": {"next": {"$ref": "#/definitions/row"}}}}, "$ref": "#/definitions/row"},
        {
            "category": "data",
            "cleanup_policy": "compact",
            "options": {"publishing": "exactly-once"},
            **keyed_by("next"),
        },
    ),
}


def a_list(*names: str) -> list[dict[str, str]]:
    return [{"data_type": "service", "value": name} for name in names]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["sqlite", "postgres"])
async def here(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Here]:
    """A hub that knows its callers, with these event types; each is for `root`, and one for `reader` too."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/hub.db"
    else:
        url = request.getfixturevalue("postgres_cluster").create_database()
    hub = open_hub(url)
    with hub.store.write() as tx:
        for name, (schema, traits) in ODD.items():
            lists = {each: a_list("root") for each in ("admins", "readers", "writers")}
            if name == "tree":
                lists["readers"] = a_list("reader")
            text = json.dumps(schema, ensure_ascii=False)
            given = an_event_type(name, schema={"type": "json_schema", "schema": text}, authorization=lists, **traits)
            tx.registry.insert(EventType.parse(given), START_AT)
    options = {"authentication": [TokenMethod()], "administrators": ["service:root"], "trusted_proxies": ["127.0.0.1"]}
    async with serve(hub, **options) as served:
        yield served


async def ask(here: Here, caller: str, query: str = "", **headers: str) -> Any:
    secret = here.hub.admin.tokens.create(Caller("service", caller)).secret
    return await here.http.get(f"/asyncapi.json{query}", headers={"authorization": f"Bearer {secret}"} | headers)


def parse(document: str) -> Any:
    """Return what AsyncAPI's own parser understands of *document*."""
    subprocess.run([ROOT / "scripts" / "setup-npm", "asyncapi"], check=True)
    command = ["node", Path(__file__).with_name("parse.cjs"), ROOT / "build" / "asyncapi"]
    done = subprocess.run(command, input=document, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.anyio
async def test_description_of_odd_event_types_means_to_asyncapis_parser_what_the_registry_holds(here: Here) -> None:
    asked = "?" + "&".join(f"event_type={name}" for name in ODD)
    answer = await ask(here, "root", asked, **{"x-forwarded-host": "hub.example", "x-forwarded-prefix": "/events"})
    document = answer.json()
    found = parse(answer.text)

    assert found["problems"] == []
    assert {each["id"]: (each["action"], each["address"], each["server"]) for each in found["operations"]} == {
        f"{action}.{name}": (action, f"/feeds/{name}", "http://hub.example/events")
        for name in ODD
        for action in ("receive", "send")
    }
    messages = {each["id"]: each for each in found["messages"]}
    assert messages.keys() == ODD.keys()
    assert {name: each["correlation"] for name, each in messages.items()} == {
        "anything": None,
        "nested.definitions.of-2": "$message.payload#/größe",
        "references.that.are.none": None,
        "tree": "$message.payload#/id",
        "change": "$message.payload#/data/next",
    }
    assert messages["nested.definitions.of-2"]["members"] == {"größe": "integer", "both": None}
    assert messages["nested.definitions.of-2"]["examples"] == [{"größe": 4}]
    assert messages["tree"]["examples"] == [{"metadata": METADATA, "id": "x"}]
    assert messages["tree"]["members"] == {"id": "string", "branches": "array", "metadata": "object"}
    assert messages["change"]["members"] == {
        "metadata": "object",
        "data_type": "string",
        "data_op": None,
        "data": "object",
    }
    assert (messages["tree"]["title"], messages["tree"]["summary"]) == ("Tree", "A tree.")
    assert messages["tree"]["tags"] == ["business"]

    channel = document["channels"]["references.that.are.none"]
    [message] = channel["messages"].values()
    schema = message["payload"]["schema"]
    assert schema["properties"] == {"choice": {}, "price": {"type": "number", "exclusiveMinimum": 1}, "other": {}}
    assert schema["patternProperties"] == {"^\\$ref$": {"type": "string"}}
    penstock = document["channels"]["change"]["x-penstock"]
    assert penstock["partition_key_fields"] == ["next"]
    assert (penstock["cleanup_policy"], penstock["publishing"]) == ("compact", "exactly-once")
    assert "bindings" not in document["operations"]["send.change"]
    metadata = document["channels"]["change"]["messages"]["change"]["payload"]["schema"]["properties"]["metadata"]
    assert metadata["properties"]["received_at"]["readOnly"] is True
    assert "partition_compaction_key" in metadata["required"]
    assert document["servers"]["hub"]["security"] == [{"$ref": "#/components/securitySchemes/bearer"}]


@pytest.mark.anyio
async def test_callers_see_only_the_event_types_and_operations_that_they_may_use(here: Here) -> None:
    seen = await ask(here, "reader")
    assert list(seen.json()["channels"]) == ["tree"]
    assert list(seen.json()["operations"]) == ["receive.tree"]
    stranger = (await ask(here, "stranger")).json()
    assert (stranger["channels"], stranger["operations"]) == ({}, {})
    problem_of(await here.http.get("/asyncapi.json"), 401, "unauthenticated")
    problem_of(await ask(here, "reader", "?event_type=tree&event_type=change"), 403, "access-denied")
    own = (await ask(here, "root", "?event_type=nakadi.audit.log")).json()
    assert list(own["operations"]) == ["receive.nakadi.audit.log"]
    problem_of(await ask(here, "reader", "?event_type=no.such"), 404, "event-type-not-found")
    problem_of(await ask(here, "reader", "?event_type=no%00name"), 404, "event-type-not-found")

    chosen = (await ask(here, "root", "?event_type=tree&event_type=change&event_type=tree")).json()
    assert list(chosen["channels"]) == ["change", "tree"]


@pytest.mark.exhaustive  # The parser takes two seconds to load.
@pytest.mark.anyio
async def test_description_without_event_types_is_valid(here: Here) -> None:
    assert parse((await ask(here, "stranger")).text)["problems"] == []


@pytest.mark.anyio
async def test_unchanged_description_is_answered_304_until_an_event_type_or_a_right_changes(here: Here) -> None:
    tag = (await ask(here, "reader")).headers["etag"]
    same = await ask(here, "reader", **{"if-none-match": tag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert (await ask(here, "root", **{"if-none-match": tag})).status_code == 200

    definition = here.hub.registry.load("tree").event_type.definition
    here.hub.registry.replace("tree", definition | {"labels": {"team": "forest"}})
    changed = await ask(here, "reader", **{"if-none-match": tag})
    assert changed.json()["channels"]["tree"]["x-penstock"]["labels"] == {"team": "forest"}
    lists = definition["authorization"] | {"writers": a_list("reader")}
    here.hub.registry.replace("tree", definition | {"authorization": lists})
    here.hub.admin.permissions.refresh()
    widened = await ask(here, "reader", **{"if-none-match": changed.headers["etag"]})
    assert list(widened.json()["operations"]) == ["receive.tree", "send.tree"]
