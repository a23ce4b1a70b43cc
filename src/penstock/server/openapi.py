"""The description of the HTTP interface in OpenAPI 3.1, made from the routing table."""

import re
from collections.abc import Sequence
from typing import Any

from penstock.server.operation import Operation
from penstock.wire.problem import MEDIA_TYPE as PROBLEM


def describe(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of *operations*."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": version, "summary": "An event hub that lives in your own database."},
        "paths": paths,
        "components": {"schemas": {"Problem": _PROBLEM}},
    }


_PROBLEM = {
    "type": "object",
    "description": "RFC 9457, with the fields of the error at hand.",
    "required": ["title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
    },
}


def _operation(operation: Operation) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    parameters += [
        {"name": p.name, "in": "query", "required": p.required, "schema": p.schema, "description": p.description}
        for p in operation.parameters
    ]
    summary = (operation.handler.__doc__ or "").strip().splitlines()[0]
    described: dict[str, Any] = {
        "operationId": operation.handler.__name__
        if operation.method != "HEAD"
        else f"head_{operation.handler.__name__}",
        "summary": operation.summary,
        "description": summary.partition(": ")[2],
        "responses": {
            **{
                str(status): {"description": answer.description}
                | ({"content": {media_type: {} for media_type in answer.media_types}} if answer.media_types else {})
                for status, answer in operation.answers.items()
            },
            "default": {
                "description": "A problem.",
                "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if parameters:
        described["parameters"] = parameters
    if operation.body:
        described["requestBody"] = {"required": True, "content": {operation.body: {}}}
    return described
