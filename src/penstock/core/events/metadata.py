"""The metadata of business and data events: a producer's own members, and those that the hub writes.

Source: Nakadi's event metadata and enrichment, https://nakadi.io/manual.html; see docs/decisions/nakadi-contract.md.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from penstock.errors import InvalidEvent

SERVER_MEMBERS: Final = frozenset(["received_at", "version", "published_by", "partition", "event_type"])
"""Members of the metadata that the hub always writes itself."""
PUBLISHER: Final = "unauthenticated"
"""Value of `published_by` while requests are not authenticated."""
WRITTEN_BYTES_MAX: Final = 640
"""Upper bound of the bytes that a hub writes into the metadata: the event type's name has up to 255 characters, the
flow id 128, the rest is short. A longer name than `PUBLISHER` adds to it: see `count_extra_bytes`."""

_DROPPED: Final = SERVER_MEMBERS - {"partition"}
_MAYBE_WRITTEN: Final = SERVER_MEMBERS | {"flow_id"}
_NULL: Final = b"null"
_FILLED: Final = frozenset(["eid", "occurred_at"])
_ABSENT: Final = object()
_KEY: Final = re.compile(rb'[{,\s]*"(?:[^"\\]|\\.)*"\s*:\s*')
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode


def fill_metadata(raw: bytes, *, eid: Callable[[], UUID], occurred_at: Callable[[], datetime]) -> bytes:
    """Return the event *raw* with an id and a time in its metadata if they are missing; other bytes do not change.

    A null in the metadata, or as the metadata, counts as missing: models write null for unset fields.

    Raises:
        InvalidEvent: the metadata is not an object.

    >>> fill_metadata(b'{"n":1.50}', eid=lambda: UUID(int=7), occurred_at=lambda: datetime(2026, 11, 20, tzinfo=UTC))
    b'{"n":1.50,"metadata":{"eid":"00000000-0000-0000-0000-000000000007","occurred_at":"2026-11-20T00:00:00.000Z"}}'
    """
    try:
        event = _members(raw)
        given = _members(event["metadata"]) if bytes(event.get("metadata", _NULL)) != _NULL else {}
    except msgspec.DecodeError:
        raise InvalidEvent(reason="its metadata is not an object") from None
    nulls = [name for name, value in given.items() if bytes(value) == _NULL]
    if not nulls and "eid" in given and "occurred_at" in given:
        return raw
    metadata = {name: value for name, value in given.items() if name not in nulls or name in _FILLED}
    if "eid" in nulls or "eid" not in given:
        metadata["eid"] = msgspec.Raw(_encode(str(eid())))
    if "occurred_at" in nulls or "occurred_at" not in given:
        metadata["occurred_at"] = msgspec.Raw(_encode(_format_time(occurred_at())))
    event["metadata"] = msgspec.Raw(_encode(metadata))
    return _encode(event)


def fill_metadata_of(
    event: dict[str, Any], raw: bytes, *, eid: Callable[[], UUID], occurred_at: Callable[[], datetime]
) -> bytes:
    """Return *raw* as `fill_metadata` does; it is the JSON of *event*, freshly encoded, and is seldom decoded.

    >>> fill_metadata_of({"metadata": {"eid": "x", "occurred_at": "y"}}, b"(JSON)", eid=UUID, occurred_at=datetime.now)
    b'(JSON)'
    """
    metadata = event.get("metadata", _ABSENT)
    if metadata is _ABSENT:
        separator = b"," if event else b""
        filled = f'"metadata":{{"eid":"{eid()}","occurred_at":"{_format_time(occurred_at())}"}}}}'
        return b"".join([raw[:-1], separator, filled.encode()])
    return raw if has_filled_metadata(event) else fill_metadata(raw, eid=eid, occurred_at=occurred_at)


def has_filled_metadata(event: dict[str, Any]) -> bool:
    """Return whether the metadata of the decoded *event* has an id and a time, so that `fill_metadata` adds nothing.

    >>> has_filled_metadata({"metadata": {"eid": "x", "occurred_at": "y"}}), has_filled_metadata({"metadata": {}})
    (True, False)
    """
    metadata = event.get("metadata")
    return type(metadata) is dict and metadata.keys() >= _FILLED and None not in metadata.values()


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _EventEnvelope(msgspec.Struct):
    metadata: msgspec.Raw


_open: Final = msgspec.json.Decoder(_EventEnvelope).decode


class Enrichment:
    """Completes the metadata of events that are published together, like Nakadi's enrichment."""

    def __init__(
        self, *, event_type: str, version: str, received_at: str, flow_id: str | None, published_by: str = PUBLISHER
    ) -> None:
        """Prepare the members that all events get; *flow_id* is for events that have none."""
        self._same = {
            "event_type": event_type,
            "received_at": received_at,
            "published_by": published_by,
            "version": version,
        }
        self._flow_id = flow_id
        self._ends: dict[tuple[int, bool], bytes] = {}

    def complete(self, raw: bytes, event: dict[str, Any], partition: int) -> bytes:
        """Return *raw* with its metadata completed; all bytes outside of the metadata stay the same.

        >>> raw = b'{"n": 1.0, "metadata": {"eid":"x"}}'
        >>> enrichment = Enrichment(event_type="t", version="1.0.0", received_at="now", flow_id=None)
        >>> enrichment.complete(raw, {"metadata": {"eid": "x"}}, 0).startswith(b'{"n": 1.0, "metadata": {"eid":"x","')
        True
        """
        metadata = event["metadata"]
        end = self._end(partition, bool(metadata.get("flow_id")))
        given = bytes(_open(raw).metadata)
        before, _, after = raw.partition(given)
        if given in after:
            before, after = _split_metadata(raw)
        if metadata and SERVER_MEMBERS.isdisjoint(metadata) and metadata.get("flow_id") != "":
            completed = given[:-1] + end
        else:
            kept = {name: value for name, value in metadata.items() if name not in SERVER_MEMBERS}
            if kept.get("flow_id") == "":
                del kept["flow_id"]
            completed = _encode(kept)[:-1] + (end if kept else b"{" + end[1:])
        return before + completed + after

    def _end(self, partition: int, has_flow_id: bool) -> bytes:
        """Return the bytes that the hub appends to the metadata."""
        key = partition, has_flow_id
        if key not in self._ends:
            written = self._same | {"partition": str(partition)}
            if self._flow_id and not has_flow_id:
                written["flow_id"] = self._flow_id
            self._ends[key] = b"," + _encode(written)[1:]
        return self._ends[key]


def count_extra_bytes(published_by: str) -> int:
    """Return how many bytes a publisher's name takes beyond those in `WRITTEN_BYTES_MAX`.

    >>> count_extra_bytes("billing"), count_extra_bytes("the billing service")
    (0, 4)
    """
    return max(0, len(_encode(published_by)) - len(PUBLISHER) - 2)


def drop_server_members(events: list[dict[str, Any]], raws: list[bytes]) -> None:
    """Remove from decoded events and from their bytes, in place, the metadata that a hub has written.

    The partition stays. If it is there, `Enrichment.complete` writes the metadata anew, and the bytes stay as they are.
    """
    for number, event in enumerate(events):
        metadata = event.get("metadata")
        if type(metadata) is dict and not _DROPPED.isdisjoint(metadata):
            kept = event["metadata"] = {name: value for name, value in metadata.items() if name not in _DROPPED}
            if "partition" not in kept:
                before, after = _split_metadata(raws[number])
                raws[number] = before + _encode(kept) + after


def _split_metadata(raw: bytes) -> tuple[bytes, bytes]:
    """Return the bytes of *raw* before and after the value of its member `metadata`."""
    end = 0
    for name, value in _members(raw).items():
        key = _KEY.match(raw, end)
        start, end = key.end(), key.end() + len(bytes(value))  # type: ignore[union-attr]  # Each member has one.
        if name == "metadata":
            break
    return raw[:start], raw[end:]


def count_written_bytes(raw: bytes) -> int:
    """Return the number of bytes in the metadata of *raw* that a hub can have written.

    >>> count_written_bytes(b'{"metadata":{"partition":"0","eid":"x"}}') == len('"partition":"0",')
    True
    """
    try:
        metadata = _members(_members(raw)["metadata"])
    except (KeyError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return 0
    sizes = (len(name) + len(value) + len('"":,') for name, value in metadata.items() if name in _MAYBE_WRITTEN)
    return min(sum(sizes), WRITTEN_BYTES_MAX)
