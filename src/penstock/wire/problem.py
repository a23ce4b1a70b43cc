"""Errors as problem+json (RFC 9457), with a stable type from which a client restores the error."""

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
"""Titles that Nakadi uses and Python has changed."""
_NOT_THERE: Final = 'EventType "{event_type}" does not exist.'
"""Nakadi's detail for a missing event type, which clients compare."""
_NOT_ITS_OWN: Final = "Wrong partitions specified - some partitions don't belong to subscription: "
_PARTITION: Final = "EventTypePartition{{eventType='{event_type}', partition='{partition}'}}"
"""Nakadi's text for a partition that the subscription of a stream does not read."""
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
"""Errors for problems without a code. Other statuses become ServerError."""
_NOWHERE: Final = frozenset({404, 405, 501})
"""Statuses of a server that does not have the path; a proxy in front of the right server uses others."""
_SHOWN_BYTES: Final = 500
_BY_CODE: Final = {code: kind for kind in errors.ALL if kind is not ServerError for code in (kind.code, *kind.cases)}


def to_problem(error: PenstockError, status: int, title: str) -> dict[str, Any]:
    """Return the problem object of *error*: the standard members first, then the error's fields.

    >>> to_problem(errors.EventTypeNotFound(event_type="x"), 404, "Not Found")["event_type"]
    'x'
    """
    problem = {"type": TYPE_PREFIX + error.code, "title": title, "status": status, "detail": error.detail}
    if error.hint:
        problem["hint"] = error.hint
    return problem | {name: value for name, value in error.fields.items() if name not in problem}


def nakadi_problem(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return *problem* with the members that Nakadi's problems have.

    Violations of fields of a body have a type of their own, with one line for each; all other problems have no type.

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
    """Return the error of a response: Penstock's by its code or by Nakadi's form, otherwise see `make_foreign_error`.

    >>> to_error(404, b'{"type":"urn:penstock:problem:event-type-not-found","detail":"gone","event_type":"x"}').fields
    {'event_type': 'x'}
    """
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = {}
    if isinstance(said, list):
        return _batch_error(said) or make_foreign_error(status, body, url, wanted)
    problem: dict[str, Any] = said if isinstance(said, dict) else {}
    prefix, found, code = str(problem.get("type", "")).partition(TYPE_PREFIX)
    kind = _BY_CODE.get(code) if found and not prefix else None
    if kind is None:
        return _nakadi_error(status, problem) or make_foreign_error(status, body, url, wanted)
    fields = {k: v for k, v in problem.items() if k not in ("type", "title", "status", "detail", "hint")}
    detail = str(problem.get("detail", ""))
    return kind.of(code, detail, **fields)


def _nakadi_error(status: int, problem: Mapping[str, Any]) -> PenstockError | None:
    """Return the error of a *problem* in Nakadi's form, which has no code; None for other forms.

    Nakadi's texts determine the error, otherwise the status; then it has no fields.
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
    """Return the error of a batch that Nakadi refused with a list of results; None for other lists.

    >>> _batch_error([{"publishing_status": "aborted"}, {"publishing_status": "failed", "detail": "#/n: no integer"}])
    Invalid('event 2 of 2 is refused: #/n: no integer')
    """
    try:
        failed = [place for place, each in enumerate(items) if each["publishing_status"] == "failed"]
        place = failed[0] if failed else 0
        return errors.Invalid(f"event {place + 1} of {len(items)} is refused: {items[place]['detail']}")
    except (KeyError, TypeError, IndexError):
        return None


def make_foreign_error(status: int, body: bytes, url: str, wanted: str) -> ServerError:
    """Return the error of a response that is not Penstock's: WrongAddress if a *wanted* never responds so."""
    said = body[:_SHOWN_BYTES].decode(errors="replace").strip() or "(nothing)"
    if status < 400 or status in _NOWHERE:
        return WrongAddress(status=status, url=url, body=said, wanted=wanted)
    return ServerError(status=status, url=url, body=said)
