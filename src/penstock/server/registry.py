"""The routing table of the registry: event types, their schemas, and what a change of them would be."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.server import event_types, parameters, schemas, shapes
from penstock.server.operation import Operation

GET, POST, PUT, DELETE = (partial(Operation, method) for method in ("GET", "POST", "PUT", "DELETE"))
_AT: Final = "/event-types/{event_type}"
_VERSION: Final = f"{_AT}/schemas/{{version}}"

REGISTRY: Final[Sequence[Operation]] = (
    GET("/event-types", event_types.list_event_types, shapes.EVENT_TYPES, parameters.EVENT_TYPES),
    POST("/event-types", event_types.create_event_type, shapes.CREATED, body=shapes.NEW_EVENT_TYPE),
    GET(_AT, event_types.show_event_type, shapes.EVENT_TYPE),
    PUT(_AT, event_types.replace_event_type, shapes.CHANGED, parameters.REORDERING, shapes.NEW_EVENT_TYPE),
    DELETE(_AT, event_types.delete_event_type, shapes.DELETED),
    PUT(f"{_AT}/partition-count", event_types.grow_event_type, shapes.DONE, body=shapes.COUNT),
    POST(
        f"{_AT}/definition-check",
        event_types.check_definition,
        shapes.TAKEN,
        parameters.REORDERING,
        shapes.NEW_EVENT_TYPE,
    ),
    GET(f"{_AT}/schemas", schemas.list_schemas, shapes.SCHEMAS, parameters.SCHEMAS),
    POST(f"{_AT}/schemas", schemas.add_schema, shapes.ADDED, parameters.FETCH, shapes.NEW_SCHEMA),
    GET(_VERSION, schemas.show_schema, shapes.SCHEMA),
    POST(f"{_VERSION}/compatibility-check", schemas.compare_schema, shapes.COMPARISON, body=shapes.COMPARED),
)
