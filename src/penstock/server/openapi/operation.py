"""One operation of the HTTP interface, described once: the route and its documentation are made from it."""

import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from starlette.requests import Request

from penstock.hub.admin.settings import Permission

Handler = Callable[[Request], Awaitable[Any]]
Schema = Mapping[str, Any]
"""A JSON Schema of the 2020-12 draft, as OpenAPI 3.1 takes it."""


class Parameter(NamedTuple):
    """A parameter of the query, or a header."""

    name: str
    description: str
    schema: Schema
    required: bool = False
    place: Literal["query", "header"] = "query"


class Answer(NamedTuple):
    """The answer of an operation that succeeds; all others are problems, unless it says more."""

    status: int
    description: str
    content: Mapping[str, Schema]
    """By media type; empty where there is no body."""
    headers: Mapping[str, str]
    """What its headers say, by name."""
    refusal: Mapping[str, Schema] = MappingProxyType({})
    """What a 422 can hold in place of a problem, by media type."""


def object_of(required: str, /, **properties: Schema) -> dict[str, Any]:
    """Return the schema of an object whose *required* members are named with spaces between them."""
    return {"type": "object", "required": required.split(), "properties": properties}


def list_of(items: Schema, **rules: Any) -> dict[str, Any]:
    """Return the schema of a list of *items*, to which further *rules* apply."""
    return {"type": "array", "items": items} | rules


class Operation(NamedTuple):
    """A method on a path: its handler, the permission that it needs, and its description.

    The first line of the handler's docstring says what the operation does.
    """

    method: str
    path: str
    needs: Permission | None
    """The permission for what the path names; None if anybody may, and the hub need not have started."""
    handler: Handler
    answer: Answer
    parameters: tuple[Parameter, ...] = ()
    body: Mapping[str, Schema] | None = None
    """The request's body by media type, None for none."""
    in_path: Mapping[str, Schema] = MappingProxyType({})
    """What stands in its path, by name, where it is not the name of an event type."""
    any_text: bool = False
    """Whether what stands in its path may hold slashes."""
    event: Literal["request", "read", "publish", "commit"] = "request"
    """What the access log calls a request of it."""
    without_query: "Operation | None" = None
    """The operation that takes over when the request has no query; it is described together with this one."""

    @property
    def route(self) -> str:
        """The path as the framework takes it."""
        return re.sub(r"{(\w+)}", r"{\1:path}", self.path) if self.any_text else self.path
