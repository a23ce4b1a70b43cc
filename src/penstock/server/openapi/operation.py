"""The operations of the HTTP interface. Routes and their description in OpenAPI are both made from them."""

import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from starlette.requests import Request

from penstock.core.access import Permission
from penstock.core.registry.definition import NAME_CHARS_MAX, NAME_PATTERN

JSON: Final = "application/json"

Endpoint = Callable[[Request], Awaitable[Any]]
SchemaObject = Mapping[str, Any]
"""A JSON Schema of the 2020-12 draft, as OpenAPI 3.1 takes it."""


class Parameter(NamedTuple):
    """A parameter of the query, or a header."""

    name: str
    description: str
    schema: SchemaObject
    required: bool = False
    place: Literal["query", "header"] = "query"


class AnswerShape(NamedTuple):
    """The answer of an operation that succeeds. Other answers are problems."""

    status: int
    description: str
    content: Mapping[str, SchemaObject]
    """By media type; empty where there is no body."""
    headers: Mapping[str, str]
    """Descriptions of its headers, by name."""
    refusal: Mapping[str, SchemaObject] = MappingProxyType({})
    """The body of a 422 that is no problem, by media type."""


def object_of(required: str, /, **properties: SchemaObject) -> dict[str, Any]:
    """Return the schema of an object whose *required* members are named with spaces between them."""
    return {"type": "object", "required": required.split(), "properties": properties}


def list_of(items: SchemaObject, **rules: Any) -> dict[str, Any]:
    """Return the schema of a list of *items*, to which further *rules* apply."""
    return {"type": "array", "items": items} | rules


def answer_of(
    description: str, content: Mapping[str, SchemaObject], status: int = 200, headers: Mapping[str, str] | None = None
) -> AnswerShape:
    """Return the answer that has one of the bodies in *content*, by media type."""
    return AnswerShape(status, description, content, headers or {})


EVENT_TYPE_NAME: Final = {
    "type": "string",
    "maxLength": NAME_CHARS_MAX,
    "pattern": f"^{NAME_PATTERN}$",
    "examples": ["order.placed"],
}
IN_PATH: Final[Mapping[str, SchemaObject]] = {
    "event_type": EVENT_TYPE_NAME,
    "version": {"type": "string", "pattern": r"^([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}|latest)$"},
}
"""The schemas of parameters of paths, by their names, unless an operation has its own."""


class HttpOperation(NamedTuple):
    """A method on a path: its handler, the permission that it needs, and its description.

    The first line of the handler's docstring says what the operation does.
    """

    method: str
    path: str
    needs: Permission | None
    """The permission for the resource that the path names; None if anybody may, and the hub need not have started."""
    handler: Endpoint
    answer: AnswerShape
    parameters: tuple[Parameter, ...] = ()
    body: Mapping[str, SchemaObject] | None = None
    """The request's body by media type, None for none."""
    in_path: Mapping[str, SchemaObject] = MappingProxyType({})
    """The schemas of the path's parameters by name, except event types."""
    may_be_missing: bool = False
    """True if the resource that the path names need not exist."""
    any_text: tuple[str, ...] = ()
    """The names of the path's parameters that may contain slashes."""
    event: Literal["request", "read", "publish", "commit"] = "request"
    """The name of its requests in the access log."""
    without_query: "HttpOperation | None" = None
    """The operation for a request without a query; both are described as one."""
    subject: str = ""
    """The heading below which it is described."""

    @property
    def route(self) -> str:
        """The path as the framework takes it."""
        return re.sub(
            r"{(\w+)}", lambda found: f"{{{found[1]}:path}}" if found[1] in self.any_text else found[0], self.path
        )
