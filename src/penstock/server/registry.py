"""The routes of event types, in Nakadi's shape.

The routes of event types' schemas, in Nakadi's shape.

The routes below /registry: what the definition of an event type can choose from.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.access import HUB
from penstock.core.groups.groups import SUBSCRIPTION
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.core.times import format_time
from penstock.errors import BadParameter, EventTypeNotFound, InvalidEventType
from penstock.hub.admin.permissions import is_reserved
from penstock.hub.groups.groups import EventTypeReader
from penstock.hub.hub import Hub
from penstock.hub.registry import Comparison
from penstock.schema.guidelines import check
from penstock.server.auth import (
    authorize_now,
    check_authorization,
    event_type_named,
    is_administrator,
    keep_seen,
    know,
    sender_of,
    subscription_with,
)
from penstock.server.groups import sees_group
from penstock.server.http.requests import parse_json, read_body
from penstock.server.http.responses import json_response, link, page_links, warn, warn_of_no_effect
from penstock.server.state import event_type_of, state_of
from penstock.wire.log.nakadi import SCHEMAS_MAX, event_type_object, schema_pages
from penstock.wire.query import WHOLE_NUMBER_MAX, Query, make_printable

DEFINITION_BYTES_MAX: Final = 4 << 20
"""A schema takes several times its size when it is written as a text within JSON."""
WARNINGS_MAX: Final = 10
"""An answer warns of at most so many guidelines."""


async def list_event_types(request: Request) -> Response:
    """GET /event-types: list event types, sorted by name."""
    state = state_of(request)
    query = Query(request.scope["query_string"])
    writer, owner = _parse_attribute(query, "writer"), query.find_text("owning_application")

    def list_page() -> Response:
        feeds = [feed for feed in state.hub.registry.list() if _matches(feed, writer, owner)]
        return json_response(
            list(map(_event_type_object, keep_seen(request, feeds, lambda feed: event_type_named(feed.name))))
        )

    return await state.run(list_page)  # Thousands of event types would block the event loop.


async def create_event_type(request: Request) -> Response:
    """POST /event-types: create an event type."""
    state = state_of(request)
    body = await read_body(request, state.run, DEFINITION_BYTES_MAX)

    def create() -> Response:
        definition = parse_json(body)
        name = definition.get("name") if isinstance(definition, dict) else None
        if isinstance(name, str):
            _check_reserved(request, name)
        check_authorization(request, definition, None, InvalidEventType)
        state.hub.registry.create(definition, sender_of(request), is_exempt=lambda: is_administrator(request))
        return _answer_change(state.hub, definition["name"], 201, definition)

    return await state.run(create)


def _check_reserved(request: Request, name: str) -> None:
    """Raise AccessDenied if administrators alone may create the event type *name*, and the sender is none."""
    if is_reserved(event_type_named(name)):
        # The hub would write there what others may not read.
        authorize_now(request, "administer", HUB)


async def show_event_type(request: Request) -> Response:
    """GET /event-types/{event_type}: show an event type; a header links to its producers and consumers."""
    state, name = state_of(request), event_type_of(request)
    answer = await state.run(lambda: json_response(_event_type_object(state.hub.registry.load(name))))
    links = (f'<{link(request, f"/event-types/{name}/{rel}")}>; rel="{rel}"' for rel in ("producers", "consumers"))
    answer.headers["Link"] = ", ".join(links)
    return answer


async def list_event_type_producers(request: Request) -> Response:
    """GET /event-types/{event_type}/producers: list the callers that have published in the last 30 days."""
    state, name = state_of(request), event_type_of(request)

    def list_all() -> Response:
        found = state.hub.admin.publishers.list(name)
        return json_response({"items": [{"caller": each, "last_seen": format_time(at)} for each, at in found.items()]})

    return await state.run(list_all)


async def list_event_type_consumers(request: Request) -> Response:
    """GET /event-types/{event_type}/consumers: list the consumer groups that read an event type."""
    state, name = state_of(request), event_type_of(request)

    def list_all() -> Response:
        found = state.hub.groups.list_consumers(name)
        know(request, [subscription_with(each.group.name) for each in found if each.group.kind == SUBSCRIPTION])
        seen = [each for each in found if sees_group(request, each.group)]
        return json_response({"items": list(map(_consumer_object, seen))})

    return await state.run(list_all)


def _consumer_object(consumer: EventTypeReader) -> dict[str, Any]:
    group, at = consumer.group, consumer.committed_at
    application = None if group.definition is None else group.definition["owning_application"]
    return {
        "group": group.name,
        "kind": group.kind,
        "owning_application": application,
        "owner": group.owner,
        "last_commit": None if at is None else format_time(at),
    }


async def replace_event_type(request: Request) -> Response:
    """PUT /event-types/{event_type}: change an event type, giving all of its definition."""
    state, name = state_of(request), event_type_of(request)
    allow_reordering = _allows_reordering(request)
    body = await read_body(request, state.run, DEFINITION_BYTES_MAX)

    def replace() -> Response:
        definition = parse_json(body)
        _check_lists(request, name, definition)
        state.hub.registry.replace(name, definition, allow_reordering=allow_reordering, by=sender_of(request))
        return _answer_change(state.hub, name, 200, definition)

    return await state.run(replace)


async def delete_event_type(request: Request) -> Response:
    """DELETE /event-types/{event_type}: drop an event type with all its events."""
    state, name = state_of(request), event_type_of(request)
    await state.run(
        lambda: state.hub.registry.delete(name, sender_of(request), is_exempt=lambda: is_administrator(request))
    )
    return Response(status_code=200)


def _check_lists(request: Request, name: str, definition: Any) -> None:
    """Check the `authorization` that the event type *name*, which need not exist, is to have."""
    before = None
    with suppress(EventTypeNotFound):
        before = state_of(request).hub.registry.load(name).event_type.definition["authorization"]
    check_authorization(request, definition, before, InvalidEventType)


async def grow_event_type(request: Request) -> Response:
    """PUT /event-types/{event_type}/partition-count: add partitions to an event type."""
    state, name = state_of(request), event_type_of(request)
    body = await read_body(request, state.run, DEFINITION_BYTES_MAX)

    def grow() -> None:
        given = parse_json(body)
        count = given.get("partition_count") if isinstance(given, dict) else None
        state.hub.registry.grow(name, count, sender_of(request))

    await state.run(grow)
    return Response(status_code=204)


async def check_definition(request: Request) -> Response:
    """POST /event-types/{event_type}/definition-check: check a definition without applying it."""
    state, name = state_of(request), event_type_of(request)
    allow_reordering = _allows_reordering(request)
    body = await read_body(request, state.run, DEFINITION_BYTES_MAX)

    def check_body() -> Response:
        given, is_exempt = parse_json(body), lambda: is_administrator(request)
        if not state.hub.admin.permissions.knows(event_type_named(name)):
            _check_reserved(request, name)
        _check_lists(request, name, given)
        found = state.hub.registry.check(name, given, allow_reordering=allow_reordering, is_exempt=is_exempt)
        return _warn_of(Response(status_code=204), state.hub, found, given)

    return await state.run(check_body)


def _allows_reordering(request: Request) -> bool:
    return Query(request.scope["query_string"]).read_flag("allow_reordering")


def _answer_change(hub: Hub, name: str, status: int, given: Mapping[str, Any]) -> Response:
    """Return an empty answer, or one with the event type if a feature is on.

    Its headers warn of members without effect in the definition *given*, and of broken guidelines.
    """
    feed = hub.registry.load(name)
    shows = hub.admin.settings.is_on("return_body_on_create_update_event_type")
    answer = json_response(_event_type_object(feed), status) if shows else Response(status_code=status)
    return _warn_of(answer, hub, feed.event_type, given)


def _warn_of(answer: Response, hub: Hub, event_type: EventType, given: Mapping[str, Any]) -> Response:
    """Return *answer* with warnings: members of *given* without effect, guidelines that *event_type* breaks."""
    found = [each for each in check(event_type.whole) if each.waived is None and each.rule.level != "MAY"]
    warn_of_no_effect(answer, event_type.name, given, authenticates=hub.admin.permissions.is_enforced)
    return warn(answer, (each.line() for each in found[:WARNINGS_MAX]))


def _parse_attribute(query: Query, name: str) -> tuple[str, str] | None:
    text = query.find_text(name)
    if text is None:
        return None
    kind, colon, value = text.partition(":")
    if not kind or not colon or not value:
        raise BadParameter(
            parameter=name, value=make_printable(text), allowed="a data type and a value, such as user:jane"
        )
    return kind, value


def _matches(feed: StoredFeed, writer: tuple[str, str] | None, owner: str | None) -> bool:
    definition = feed.event_type.definition
    if owner is not None and definition["owning_application"] != owner:
        return False
    writers: Sequence[dict[str, Any]] = (definition["authorization"] or {}).get("writers", [])
    return writer is None or any((each["data_type"], each["value"]) == writer for each in writers)


def _event_type_object(feed: StoredFeed) -> dict[str, Any]:
    return event_type_object(
        feed.event_type.definition,
        partition_count=feed.partition_count,
        created_at=format_time(feed.created_at),
        updated_at=format_time(feed.updated_at),
    )


LIMIT: Final = 20
PAGE_BYTES: Final = 8 << 20
"""A page ends once it has so many bytes: a version may have 1 MiB, and there may be a thousand."""


async def list_schemas(request: Request) -> Response:
    """GET /event-types/{event_type}/schemas: list the versions of an event type's schema, newest first."""
    state, name = state_of(request), event_type_of(request)
    query = Query(request.scope["query_string"])
    limit = query.read_integer("limit", LIMIT, low=1, high=SCHEMAS_MAX)
    offset = query.read_integer("offset", 0, low=0, high=WHOLE_NUMBER_MAX)

    def list_page() -> Response:
        items, more = _find_schemas(state.hub, name, limit, offset)
        path = f"/event-types/{name}/schemas"
        links = page_links(request, path, schema_pages(len(items), limit=limit, offset=offset, more=more))
        return json_response({"items": items, "_links": links})

    return await state.run(list_page)


async def add_schema(request: Request) -> Response:
    """POST /event-types/{event_type}/schemas: add a schema to an event type, or find the version that equals it."""
    state, name = state_of(request), event_type_of(request)
    fetch = Query(request.scope["query_string"]).read_flag("fetch")
    body = await read_body(request, state.run, DEFINITION_BYTES_MAX)

    def add() -> Response:
        given = parse_json(body)
        if fetch:
            return json_response(state.hub.registry.find_equal_schema(name, given))
        state.hub.registry.add_schema(name, given, sender_of(request))
        return Response(status_code=200)

    return await state.run(add)


async def show_schema(request: Request) -> Response:
    """GET /event-types/{event_type}/schemas/{version}: show one version of an event type's schema, or the latest."""
    state, name = state_of(request), event_type_of(request)
    version = make_printable(request.path_params["version"])
    return await state.run(lambda: json_response(state.hub.registry.find_schema(name, version)))


async def compare_schema(request: Request) -> Response:
    """POST /event-types/{event_type}/schemas/{version}/compatibility-check: compare another schema with a version."""
    state, name = state_of(request), event_type_of(request)
    version = make_printable(request.path_params["version"])
    body = await read_body(request, state.run, DEFINITION_BYTES_MAX)

    def compare() -> Response:
        return json_response(_comparison_object(state.hub.registry.compare(name, version, parse_json(body))))

    return await state.run(compare)


def _find_schemas(hub: Hub, name: str, limit: int, offset: int) -> tuple[list[msgspec.Raw], bool]:
    """Return *limit* versions without the newest *offset*, fewer if they are large; and whether more follow.

    They are looked up by some and kept as JSON, so that no more is held than a page, and the rest of a look.
    """
    items: list[msgspec.Raw] = []
    size = 0
    while True:
        wanted = min(limit - len(items), LIMIT) + 1
        found = hub.registry.list_schemas(name, limit=wanted, offset=offset + len(items))
        for each in found:
            if len(items) == limit or size >= PAGE_BYTES:
                return items, True
            items.append(msgspec.Raw(msgspec.json.encode(each)))
            size += len(items[-1])
        if len(found) < wanted:
            return items, False


def _comparison_object(found: Comparison) -> dict[str, Any]:
    answer = {
        "compatible": found.refused is None,
        "compatibility_mode": found.compared.compatibility_mode,
        "evolution": found.compared.evolution,
        "validated_against_version": found.compared.schema_version,
        "version": found.version,
        "producers": found.producers,
        "consumers": found.consumers,
        "changes": found.changes,
    }
    return answer if found.refused is None else answer | {"error": found.refused.detail}


ENRICHMENT: Final = ("metadata_enrichment",)
PARTITION: Final = ("hash", "user_defined", "random")


async def list_enrichment_strategies(_: Request) -> Response:
    """GET /registry/enrichment-strategies: list the ways in which events can be completed."""
    return json_response(ENRICHMENT)


async def list_partition_strategies(_: Request) -> Response:
    """GET /registry/partition-strategies: list the ways in which an event's partition can be chosen."""
    return json_response(PARTITION)
