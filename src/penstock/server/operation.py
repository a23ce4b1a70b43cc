"""One operation of the HTTP interface, described once: the route and its documentation are made from it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request

Handler = Callable[[Request], Awaitable[Any]]
Schema = Mapping[str, Any]
"""A JSON Schema of the 2020-12 draft, as OpenAPI 3.1 takes it."""


class Parameter(NamedTuple):
    """A parameter of the query."""

    name: str
    description: str
    schema: Schema
    required: bool = False


class Answer(NamedTuple):
    """The answer of an operation that succeeds; all others are problems."""

    status: int
    description: str
    content: Mapping[str, Schema]
    """By media type; empty where there is no body."""
    headers: Mapping[str, str]
    """What its headers say, by name."""


class Operation(NamedTuple):
    """A method on a path, who handles it, and what to say about it; the handler's docstring says what it does."""

    method: str
    path: str
    handler: Handler
    answer: Answer
    parameters: tuple[Parameter, ...] = ()
    body: Mapping[str, Schema] | None = None
    """The request's body by media type, None for none."""
