"""The metadata of business and data events: what a producer gives, what the hub writes, what headers follow from it."""

import re
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from penstock.core.document import unlike
from penstock.core.event_type import Category
from penstock.errors import InvalidEvent

SERVER_MEMBERS: Final = ("received_at", "version", "published_by", "partition", "event_type")
"""Written by the hub whatever a producer says."""

WRITTEN_BYTES_MAX: Final = 512
"""More than the hub ever writes: the name of an event type has 255 characters, the rest is short."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_TIME: Final = Annotated[datetime, msgspec.Meta(tz=True)]
_split: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode


def check_shape(event: dict[str, Any], category: Category, line: int) -> None:
    """Raise InvalidEvent unless *event* has the members of its category (digest of Nakadi's contract, 2.3 and 3.1).

    >>> check_shape({"anything": 1}, "undefined", 1)
    """
    if category == "undefined":
        return
    metadata = event.get("metadata")
    if type(metadata) is not dict:
        raise _lacking(event, "metadata", f"an object, which a {category} event has", line)
    if type(eid := metadata.get("eid")) is not str or not _UUID.fullmatch(eid):
        raise InvalidEvent(line=line, reason=f"#/metadata/eid: {unlike(eid, 'a UUID')}")
    try:
        msgspec.convert(metadata.get("occurred_at"), _TIME)
    except (msgspec.ValidationError, ValueError):
        wrong = unlike(metadata.get("occurred_at"), "a valid date-time with a zone")
        raise InvalidEvent(line=line, reason=f"#/metadata/occurred_at: {wrong}") from None
    if category == "data":
        _check_change(event, line)


def _check_change(event: dict[str, Any], line: int) -> None:
    if type(event.get("data_type")) is not str:
        raise _lacking(event, "data_type", "a string, the name of what has changed", line)
    if event.get("data_op") not in ("C", "U", "D", "S"):
        raise InvalidEvent(line=line, reason=f"#/data_op: {unlike(event.get('data_op'), 'C, U, D or S')}")
    if type(event.get("data")) is not dict:
        raise _lacking(event, "data", "an object, what has changed", line)


def _lacking(event: dict[str, Any], member: str, right: str, line: int) -> InvalidEvent:
    if event.get(member) is None:
        return InvalidEvent(line=line, reason=f"#: required key [{member}] not found: it must be {right}")
    return InvalidEvent(line=line, reason=f"#/{member}: {unlike(event[member], right)}")


def enrich(raw: bytes, event: dict[str, Any], *, event_type: str, partition: int, received_at: str) -> bytes:
    """Return *raw* with its metadata completed by the hub; every other member keeps its bytes.

    >>> raw = b'{"n":1.0,"metadata":{"eid":"x"}}'
    >>> done = enrich(raw, {"metadata": {"eid": "x"}}, event_type="t", partition=0, received_at="now")
    >>> done.startswith(b'{"n":1.0,"metadata":{"eid":"x","event_type":"t"')
    True
    """
    metadata = {name: value for name, value in event["metadata"].items() if name not in SERVER_MEMBERS}
    metadata["event_type"] = event_type
    metadata["partition"] = str(partition)
    metadata["received_at"] = received_at
    metadata["published_by"] = "unauthenticated"
    members = _split(raw)
    members["metadata"] = msgspec.Raw(_encode(metadata))
    return _encode(members)


def written_bytes(raw: bytes) -> int:
    """Return how many bytes of the event *raw* a hub has written, in so far as they can be those of a hub.

    >>> written_bytes(b'{"metadata":{"partition":"0","eid":"x"}}') == len('"partition":"0",')
    True
    """
    try:
        metadata = _split(_split(raw)["metadata"])
    except (KeyError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return 0
    written = sum(len(name) + len(value) + len('"":,') for name, value in metadata.items() if name in SERVER_MEMBERS)
    return min(written, WRITTEN_BYTES_MAX)


def derived_headers(event: dict[str, Any], *, event_type: str, kind: str | None, key: str | None) -> dict[str, str]:
    """Return the `ce_*` headers that follow from an event, with CloudEvents' meanings.

    >>> derived_headers({}, event_type="order.placed", kind=None, key="42")
    {'ce_type': 'order.placed', 'ce_source': '/event-types/order.placed', 'ce_partitionkey': '42'}
    """
    headers = {"ce_type": kind or event_type, "ce_source": f"/event-types/{event_type}"}
    if key is not None:
        headers["ce_partitionkey"] = key
    metadata = event.get("metadata")
    if type(metadata) is dict:
        context = metadata.get("span_ctx")
        found = {
            "ce_id": metadata.get("eid"),
            "ce_time": metadata.get("occurred_at"),
            "ce_traceparent": context.get("traceparent") if type(context) is dict else None,
        }
        headers |= {name: value for name, value in found.items() if type(value) is str}
    return headers
