"""Errors on the wire: problem+json (RFC 9457), with a stable type by which a client finds the same error again."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from penstock import errors
from penstock.errors import PenstockError, ServerError, WrongAddress

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:penstock:problem:"
_FIELDS: Final = "http://httpstatus.es/422"
_NAKADI_TITLES: Final = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
"""Python has come to call them otherwise."""
_NOT_THERE: Final = 'EventType "{event_type}" does not exist.'
"""What it says of an event type, unless something else is said at that place; clients compare it."""
_NOT_ITS_OWN: Final = "Wrong partitions specified - some partitions don't belong to subscription: "
_PARTITION: Final = "EventTypePartition{{eventType='{event_type}', partition='{partition}'}}"
"""What it says of partitions that a stream asks for, and that its subscription does not read."""
_SAID_NOT_THERE: Final = re.compile(r'EventType "([^"]*)" does not exist\.')
_SAID_OF_FIELD: Final = re.compile(r'Field "([^"]*)" (.*)')
_NAKADI_MEMBERS: Final = frozenset(["title", "status", "detail"])
_BY_STATUS: Final[Mapping[int, type[PenstockError]]] = {
    400: errors.Invalid,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.CursorExpired,
    413: errors.TooLarge,
    422: errors.Invalid,
    501: errors.NotOffered,
}
"""What a problem without a code is. Of those that are not here the status itself is all that can be gone by."""
_NOWHERE: Final = frozenset({404, 405, 501})
"""What a server says where nothing is; a proxy before the right one has other ways to refuse."""
_SHOWN_BYTES: Final = 500
_BY_CODE: Final = {kind.code: kind for kind in errors.ALL if kind is not ServerError}


def to_problem(error: PenstockError, status: int, title: str) -> dict[str, Any]:
    """Return the problem object of *error*: the standard members first, then the error's own fields.

    >>> to_problem(errors.EventTypeNotFound(event_type="x"), 404, "Not Found")["event_type"]
    'x'
    """
    problem = {"type": TYPE_PREFIX + error.code, "title": title, "status": status, "detail": error.detail}
    if error.hint:
        problem["hint"] = error.hint
    return problem | {name: value for name, value in error.fields.items() if name not in problem}


def nakadi_problem(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return *problem* with the members alone that Nakadi's problems have.

    What is wrong with the fields of a body is told by a type of its own, a line for each; all else has no type.

    >>> nakadi_problem({"type": "urn:x", "title": "Not Found", "status": 404, "detail": "gone", "hint": "look"})
    {'title': 'Not Found', 'status': 404, 'detail': 'gone'}
    """
    status, detail = problem["status"], problem["detail"]
    if problem["type"] == TYPE_PREFIX + errors.EventTypeNotFound.code:
        said = errors.EventTypeNotFound.message.format_map(problem)
        detail = _NOT_THERE.format_map(problem) if detail == said else detail
    if problem["type"] == TYPE_PREFIX + errors.InvalidSubscription.code and "partitions" in problem:
        detail = _NOT_ITS_OWN + ", ".join(map(_PARTITION.format_map, problem["partitions"]))
    kept = {"title": _NAKADI_TITLES.get(status, problem["title"]), "status": status, "detail": detail}
    if status == 422 and detail.startswith('Field "'):
        return {"type": _FIELDS, **kept, "detail": detail.rstrip("\n") + "\n"}
    return kept


def to_error(status: int, body: bytes, url: str = "", wanted: str = "hub") -> PenstockError:
    """Return the error that an answer stands for: ours by its code, or by what `nakadi_problem` has left of it.

    Else see `strange_error`.

    >>> to_error(404, b'{"type":"urn:penstock:problem:event-type-not-found","detail":"gone","event_type":"x"}').fields
    {'event_type': 'x'}
    """
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = {}
    if isinstance(said, list):
        return _batch_error(said) or strange_error(status, body, url, wanted)
    problem: dict[str, Any] = said if isinstance(said, dict) else {}
    prefix, found, code = str(problem.get("type", "")).partition(TYPE_PREFIX)
    kind = _BY_CODE.get(code) if found and not prefix else None
    if kind is None:
        return _nakadi_error(status, problem) or strange_error(status, body, url, wanted)
    fields = {k: v for k, v in problem.items() if k not in ("type", "title", "status", "detail", "hint")}
    return kind(str(problem.get("detail", "")), **fields)


def _nakadi_error(status: int, problem: Mapping[str, Any]) -> PenstockError | None:
    """Return the error of a *problem* in Nakadi's shape, which has no code; None: it is in another shape.

    By its words, where those are Nakadi's own, else by its status: then it has no fields.
    """
    if problem.keys() - {"type"} != _NAKADI_MEMBERS or problem["status"] != status:
        return None
    detail, kind = str(problem["detail"]), problem.get("type")
    if kind == _FIELDS and (said := _SAID_OF_FIELD.findall(detail)):
        violations = [{"field": field, "reason": reason} for field, reason in said]
        return errors.InvalidEventType(detail.rstrip("\n"), **violations[0], violations=violations)
    if kind is not None:
        return None
    if status == 404 and (found := _SAID_NOT_THERE.fullmatch(detail)):
        return errors.EventTypeNotFound(event_type=found[1])
    return _BY_STATUS[status](detail) if status in _BY_STATUS else None


def _batch_error(items: list[Any]) -> PenstockError | None:
    """Return the error of a batch that Nakadi has refused, of each event of which it says something; None: it does not.

    >>> _batch_error([{"publishing_status": "aborted"}, {"publishing_status": "failed", "detail": "#/n: no integer"}])
    Invalid('event 2 of 2 is refused: #/n: no integer')
    """
    try:
        failed = [place for place, each in enumerate(items) if each["publishing_status"] == "failed"]
        place = failed[0] if failed else 0
        return errors.Invalid(f"event {place + 1} of {len(items)} is refused: {items[place]['detail']}")
    except (KeyError, TypeError, IndexError):
        return None


def strange_error(status: int, body: bytes, url: str, wanted: str) -> ServerError:
    """Return the error of an answer that is none of Penstock's: WrongAddress, where *wanted* gives no such answer."""
    said = body[:_SHOWN_BYTES].decode(errors="replace").strip() or "(nothing)"
    if status < 400 or status in _NOWHERE:
        return WrongAddress(status=status, url=url, body=said, wanted=wanted)
    return ServerError(status=status, url=url, body=said)
