"""The description of the HTTP interface in OpenAPI 3.1, made from the routing table."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.server.openapi.operation import IN_PATH, HttpOperation, SchemaObject
from penstock.wire.problem import MEDIA_TYPE as PROBLEM


def describe(
    operations: Sequence[HttpOperation], version: str, at: str = "/", methods: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the OpenAPI document of *operations*, served at the path or URL *at*.

    *methods* are the names of those by which the hub authenticates callers, none if it does not. Those that OpenAPI
    cannot describe, such as a proxy in front, need nothing of the request itself.
    """
    schemes = dict(_SCHEMES[each] for each in methods if each in _SCHEMES)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _operation(operation)
        if schemes and operation.needs is None:
            described["security"] = []
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    alternatives: list[dict[str, list[str]]] = [{name: []} for name in schemes]
    if any(each not in _SCHEMES for each in methods):
        alternatives.append({})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": version, "summary": "An event hub that lives in your own database."},
        "servers": [{"url": at}],
        "tags": [{"name": subject} for subject in dict.fromkeys(each.subject for each in operations)],
        "paths": paths,
        "components": {"schemas": {"Problem": _PROBLEM}} | ({"securitySchemes": schemes} if schemes else {}),
        **({"security": alternatives} if schemes else {}),
    }


_BEARER: Final = {"type": "http", "scheme": "bearer", "description": "A token of the hub, or a JSON Web Token."}
_SCHEMES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "token": ("bearer", _BEARER),
    "jwt": ("bearer", _BEARER),
    "certificate": ("certificate", {"type": "mutualTLS", "description": "A client certificate."}),
}
"""By method of authentication: the name and the security scheme by which OpenAPI describes it."""


_PROBLEM: Final = {
    "type": "object",
    "description": "RFC 9457: `type` is stable, and the error's own fields stand beside these.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
    },
}
_REFUSED: Final[dict[str, Any]] = {
    "description": "A problem.",
    "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def _operation(operation: HttpOperation) -> dict[str, Any]:
    answer = operation.answer
    done: dict[str, Any] = {"description": answer.description, "content": _content(answer.content)}
    if answer.headers:
        done["headers"] = {
            name: {"description": says, "schema": {"type": "string"}} for name, says in answer.headers.items()
        }
    described: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "tags": [operation.subject],
        "summary": _summary(operation),
        "parameters": _parameters(operation),
        "responses": {str(answer.status): done, "default": _REFUSED},
    }
    if answer.refusal:
        refused = _content(answer.refusal) | _REFUSED["content"]
        described["responses"]["422"] = {"description": "Nothing of it was stored.", "content": refused}
    if operation.body:
        described["requestBody"] = {"required": True, "content": _content(operation.body)}
    return described


def _summary(operation: HttpOperation) -> str:
    said = (operation.handler.__doc__ or "").splitlines()[0].partition(": ")[2]
    return said[:1].upper() + said[1:].removesuffix(".")


def _parameters(operation: HttpOperation) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": operation.in_path.get(name) or IN_PATH[name]}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    others = [
        {"name": each.name, "in": each.place, "required": each.required, "schema": each.schema}
        | {"description": each.description}
        for each in operation.parameters
    ]
    return in_path + others


def _content(shapes: Mapping[str, SchemaObject]) -> dict[str, Any]:
    return {media_type: {"schema": schema} for media_type, schema in shapes.items()}
