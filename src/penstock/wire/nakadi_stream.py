"""Nakadi's streams: what they are asked for, and the lines that they consist of (digest of its contract, 4.2)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from penstock.core.log.batching import Batch
from penstock.core.subscriptions.delivery import Joined
from penstock.errors import BadParameter, BadStreamParameter
from penstock.wire.query import Query, shown

MEDIA_TYPE: Final = "application/x-json-stream"
BATCH_LIMIT: Final = 1
FLUSH_SECONDS: Final = 30
TIMEOUT_SECONDS_MAX: Final = 4_200
NUMBER_MAX: Final = 2**31 - 1
PART_BYTES: Final = 256 << 10
"""Lines are made in parts of about this size: one line may be as large as all that a stream may hold."""
_NUMBER: Final = re.compile(r"-?\d{1,10}", re.ASCII)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream is asked for, checked, with the defaults filled in. Times are seconds."""

    batch_limit: int
    stream_limit: int
    """0: none."""
    batch_flush_timeout: int
    stream_timeout: int | None
    """None: it is left to the hub."""
    stream_keep_alive_limit: int
    """0: none."""


def parse_stream(query: Query) -> Asked:
    """Read a stream's parameters.

    Raises:
        BadParameter: one of them is no whole number, or is given twice.
        BadStreamParameter: they are numbers that make no sense, alone or together.
    """
    batch_limit = _number(query, "batch_limit", BATCH_LIMIT)
    stream_limit = _number(query, "stream_limit", 0)
    flush = _number(query, "batch_flush_timeout", FLUSH_SECONDS) or FLUSH_SECONDS
    timeout = _number(query, "stream_timeout", 0)
    keep_alives = _number(query, "stream_keep_alive_limit", 0)
    _check_least("batch_limit", batch_limit, 1)
    _check_least("batch_flush_timeout", flush, 0)
    _check_least("stream_keep_alive_limit", keep_alives, 0)
    if stream_limit != 0:
        _check_least("stream_limit", stream_limit, batch_limit, "batch_limit")
    is_chosen = 0 < timeout <= TIMEOUT_SECONDS_MAX
    if is_chosen:
        _check_least("stream_timeout", timeout, flush, "batch_flush_timeout")
    return Asked(
        batch_limit=batch_limit,
        stream_limit=stream_limit,
        batch_flush_timeout=flush,
        stream_timeout=timeout if is_chosen else None,
        stream_keep_alive_limit=keep_alives,
    )


class Lines:
    """Writes the lines of one stream."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def parts(self, batches: Iterable[Batch]) -> Iterator[bytes]:
        r"""Return the lines of *batches*, a keep-alive for one without events, in parts of about `PART_BYTES`.

        >>> b"".join(Lines(1).parts([Batch(0, 2, [b'{"n":0}', b'{"n":1}'])]))
        b'{"cursor":{"partition":"0","offset":"001-0001-000000000000000001"},"events":[{"n":0},{"n":1}]}\n'
        >>> b"".join(Lines(1).parts([Batch(0, 0, [])]))
        b'{"cursor":{"partition":"0","offset":"001-0001--1"}}\n'
        """
        return in_parts(
            (b'{"cursor":{%b}' % cursor_members(partition, self._epoch, position), events, b"}\n")
            for partition, position, events in batches
        )


def cursor_members(partition: int, epoch: int, position: int) -> bytes:
    """Return the members of a cursor that every one has, for the offset wanted next."""
    offset = b"%018d" % (position - 1) if position else b"-1"
    return b'"partition":"%d","offset":"001-%04x-%b"' % (partition, epoch, offset)


def in_parts(lines: Iterable[tuple[bytes, Sequence[bytes], bytes]]) -> Iterator[bytes]:
    """Join lines in parts of about `PART_BYTES`: of each what comes before its events, these, and what comes after.

    Events that are a part by themselves are handed on as they are: to join them would copy them all.
    """
    gathered: list[bytes] = []
    size = 0
    for before, events, after in lines:
        gathered.append(before)
        for text in _members(events):
            if len(text) >= PART_BYTES:
                yield b"".join(gathered)
                yield text
                gathered, size = [], 0
                continue
            gathered.append(text)
            size += len(text)
            if size >= PART_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
        if events:
            gathered.append(b"]")
        gathered.append(after)
    yield b"".join(gathered)


def _members(events: Sequence[bytes]) -> Iterable[bytes]:
    """Return a batch's events up to before the end of their array, joined as far as a part has room."""
    if not events:
        return ()
    if isinstance(events, Joined):
        return b',"events":[', events.data.replace(b"\n", b",")
    if len(events) == 1:
        return (b',"events":[%b' % events[0],)
    step = max(1, len(events) * PART_BYTES // max(1, sum(map(len, events))))
    if step >= len(events):
        return b',"events":[', b",".join(events)
    joined = (b",".join(events[at : at + step]) for at in range(0, len(events), step))
    return (each for index, text in enumerate(joined) for each in (b"," if index else b',"events":[', text))


def _number(query: Query, name: str, default: int) -> int:
    text = query.text(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or abs(int(text)) > NUMBER_MAX:
        raise BadParameter(parameter=name, value=shown(text), allowed=f"a whole number, up to {NUMBER_MAX}")
    return int(text)


def _check_least(name: str, value: int, least: int, called: str | None = None) -> None:
    if value < least:
        detail = f"{name} can't be lower than {called or least}"
        raise BadStreamParameter(detail, parameter=name, value=value, allowed=f"{least} or more")
