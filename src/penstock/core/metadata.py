"""The metadata of business and data events: what the hub writes into it, and what headers follow from it."""

import re
from typing import Any, Final

import msgspec

SERVER_MEMBERS: Final = frozenset(["received_at", "version", "published_by", "partition", "event_type"])
"""Written by the hub whatever a producer says."""
PUBLISHER: Final = "unauthenticated"
"""Who publishes, as long as nobody has to say who he is."""
WRITTEN_BYTES_MAX: Final = 640
"""More than the hub ever writes: an event type's name has up to 255 characters, a flow id 128, the rest is short."""

_split: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode


class _Envelope(msgspec.Struct):
    metadata: msgspec.Raw


_open: Final = msgspec.json.Decoder(_Envelope).decode


class Enrichment:
    """Completes the metadata of events that are published together (digest of Nakadi's contract, 3.5)."""

    def __init__(self, *, event_type: str, version: str, received_at: str, flow_id: str | None) -> None:
        """Prepare what all of them get; *flow_id* goes to those that have none."""
        self._same = {
            "event_type": event_type,
            "received_at": received_at,
            "published_by": PUBLISHER,
            "version": version,
        }
        self._flow_id = flow_id
        self._ends: dict[tuple[int, bool], bytes] = {}

    def complete(self, raw: bytes, event: dict[str, Any], partition: int) -> bytes:
        """Return *raw* with its metadata completed; every byte outside of the metadata stays.

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
            before, after = _around(raw)
        if metadata and SERVER_MEMBERS.isdisjoint(metadata) and metadata.get("flow_id") != "":
            completed = given[:-1] + end
        else:
            kept = {name: value for name, value in metadata.items() if name not in SERVER_MEMBERS}
            if kept.get("flow_id") == "":
                del kept["flow_id"]
            completed = _encode(kept)[:-1] + (end if kept else b"{" + end[1:])
        return before + completed + after

    def _end(self, partition: int, has_flow_id: bool) -> bytes:
        """Return what the hub writes at the end of the metadata."""
        key = partition, has_flow_id
        if key not in self._ends:
            written = self._same | {"partition": str(partition)}
            if self._flow_id and not has_flow_id:
                written["flow_id"] = self._flow_id
            self._ends[key] = b"," + _encode(written)[1:]
        return self._ends[key]


def drop_server_members(events: list[dict[str, Any]]) -> None:
    """Take out of decoded events what a hub has written into their metadata, save the partition; in place."""
    for event in events:
        metadata = event.get("metadata")
        if type(metadata) is dict and not _DROPPED.isdisjoint(metadata):
            event["metadata"] = {name: value for name, value in metadata.items() if name not in _DROPPED}


_DROPPED: Final = SERVER_MEMBERS - {"partition"}


def _around(raw: bytes) -> tuple[bytes, bytes]:
    """Return what stands before and after the metadata of *raw*, member by member."""
    end = 0
    for name, value in _split(raw).items():
        key = _KEY.match(raw, end)
        start, end = key.end(), key.end() + len(bytes(value))  # type: ignore[union-attr]  # Each member has one.
        if name == "metadata":
            break
    return raw[:start], raw[end:]


_KEY: Final = re.compile(rb'[{,\s]*"(?:[^"\\]|\\.)*"\s*:\s*')


def written_bytes(raw: bytes) -> int:
    """Return how many bytes of the event *raw* a hub has written, in so far as they can be those of a hub.

    >>> written_bytes(b'{"metadata":{"partition":"0","eid":"x"}}') == len('"partition":"0",')
    True
    """
    try:
        metadata = _split(_split(raw)["metadata"])
    except (KeyError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return 0
    sizes = (len(name) + len(value) + len('"":,') for name, value in metadata.items() if name in _MAYBE_WRITTEN)
    return min(sum(sizes), WRITTEN_BYTES_MAX)


_MAYBE_WRITTEN: Final = SERVER_MEMBERS | {"flow_id"}


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
