"""One operation of the HTTP interface, described once: the route and its documentation are made from it."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request

Handler = Callable[[Request], Awaitable[Any]]


class Parameter(NamedTuple):
    """A parameter of the query."""

    name: str
    description: str
    schema: dict[str, Any]
    required: bool = False


class Answer(NamedTuple):
    """One answer that an operation may give."""

    description: str
    media_types: tuple[str, ...] = ()


class Operation(NamedTuple):
    """A method on a path, who handles it, and what to say about it."""

    method: str
    path: str
    handler: Handler
    summary: str
    parameters: tuple[Parameter, ...] = ()
    body: str | None = None
    """The media type of the request's body, None for none."""
    answers: dict[int, Answer] = {}  # noqa: RUF012  # never changed: a NamedTuple's default
