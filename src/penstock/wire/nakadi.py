"""Nakadi's shapes: event types, schemas, offsets and batches, as existing clients know them."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from penstock.core.events.event import EVENTS_MAX, NewEvent
from penstock.errors import BadCursor, MalformedBatch, TooManyEvents
from penstock.schema.json_text import BOM, decode, why_malformed
from penstock.wire.query import shown

SCHEMAS_MAX: Final = 1_000
"""How many versions of a schema one answer has at most."""
_OFFSET: Final = re.compile(r"001-([0-9a-f]{4})-(-1|\d{1,18})", re.ASCII)
_split: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_SPACES: Final = b" \t\r\n"


def event_type_object(
    definition: dict[str, Any], *, partition_count: int, created_at: str, updated_at: str
) -> dict[str, Any]:
    """Return an event type as it is shown: what its owner gave, what is not known here included, with defaults."""
    return definition | {"partition_count": partition_count, "created_at": created_at, "updated_at": updated_at}


def offset_text(epoch: int, offset: int) -> str:
    """Return an offset in Nakadi's text: the last one consumed, -1 before the first.

    >>> offset_text(1, 41), offset_text(2, -1)
    ('001-0001-000000000000000041', '001-0002--1')
    """
    return f"001-{epoch:04x}-{offset:018}" if offset >= 0 else f"001-{epoch:04x}--1"


def parse_offset(text: str) -> tuple[int, int]:
    """Return the epoch and the offset of Nakadi's text.

    Raises:
        BadCursor: it is not such a text.

    >>> parse_offset("001-0001-000000000000000041")
    (1, 41)
    """
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise BadCursor(
            parameter="offset", value=shown(text), reason="it is not of the form 001-0001-000000000000000041"
        )
    return int(match[1], 16), int(match[2])


def partition_object(epoch: int, partition: int, floor: int, next_offset: int) -> dict[str, str]:
    """Return a partition as it is shown: its first and its last event; with none, the last lies before the first."""
    return {
        "partition": str(partition),
        "oldest_available_offset": offset_text(epoch, floor),
        "newest_available_offset": offset_text(epoch, next_offset - 1),
    }


def schema_pages(count: int, *, limit: int, offset: int, more: bool) -> dict[str, list[tuple[str, int]]]:
    """Return the queries for the pages before and after one that has *count* schema versions, where there are any.

    *count* may be less than *limit* though there are more: the page after begins where this one has ended.

    >>> schema_pages(1, limit=1, offset=0, more=True)
    {'next': [('offset', 1), ('limit', 1)]}
    """
    pages = {}
    if count and offset:
        pages["prev"] = [("offset", max(0, offset - limit)), ("limit", limit)]
    if more:
        pages["next"] = [("offset", offset + count), ("limit", limit)]
    return pages


def parse_batch(body: bytes) -> list[NewEvent]:
    """Return the events of an array, none of them decoded.

    Raises:
        TooManyEvents: it has more than `EVENTS_MAX`.
        MalformedBatch: it is no JSON array. No event is named: what is wrong may be between two of them.

    >>> [bytes(event.data) for event in parse_batch(b'[{"a":1}, {"a":2}]')]
    [b'{"a":1}', b'{"a":2}']
    """
    if not body.strip(_SPACES).startswith((b"[", BOM)):
        raise _malformed("the body is an array of events: it begins with [")
    if body.count(b"{") > EVENTS_MAX:
        _check_count(body)
    try:
        return [NewEvent(raw) for raw in _split(body)]
    except RecursionError:
        raise _malformed("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(f"the body is not valid JSON: {why_malformed(body, error)}") from None


def _check_count(body: bytes) -> None:
    """Raise TooManyEvents where the array has more events than one may, before all of them are in memory."""
    text = body.decode(errors="replace")
    at = text.find("[") + 1
    with suppress(ValueError, RecursionError):  # It is no JSON, which is told by whoever reads it whole.
        for _ in range(EVENTS_MAX):
            _, at = _decode_one(text, _BETWEEN.match(text, at).end())  # type: ignore[union-attr]  # It always matches.
        if not text.startswith("]", _BETWEEN.match(text, at).end()):  # type: ignore[union-attr]
            raise TooManyEvents(limit=EVENTS_MAX)


_BETWEEN: Final = re.compile(r"[\s,]*")
_decode_one: Final = json.JSONDecoder().raw_decode


def _malformed(reason: str) -> MalformedBatch:
    # Nakadi's words come first (digest, 3.2).
    return MalformedBatch(f"Error occurred when parsing event(s). {reason[0].upper()}{reason[1:]}", reason=reason)


def batch_responses(events: Sequence[NewEvent], failed: int, step: str, detail: str) -> list[dict[str, Any]]:
    """Return what is said of each event where the one at *failed* did not pass *step* (digest, 3.3).

    >>> [each["step"] for each in batch_responses(parse_batch(b"[{},{},{}]"), 1, "validating", "wrong")]
    ['validating', 'validating', 'none']
    """
    before, after = {"validating": ("validating", "none"), "partitioning": ("partitioning", "validating")}[step]
    responses = [
        _response("aborted", before if number < failed else after, "", event) for number, event in enumerate(events)
    ]
    if events:
        responses[failed] = _response("failed", step, detail, events[failed])
    return responses


def aborted_responses(events: Sequence[NewEvent], detail: str) -> list[dict[str, Any]]:
    """Return what is said where the whole batch is refused before any event was looked at."""
    return [_response("aborted", "none", detail, event) for event in events]


def _response(status: str, step: str, detail: str, event: NewEvent) -> dict[str, Any]:
    return {"publishing_status": status, "step": step, "detail": detail, "eid": _eid(event), "partition": None}


def _eid(event: NewEvent) -> str:
    try:
        eid = decode(event.data)["metadata"]["eid"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return ""
    return eid if isinstance(eid, str) else ""
