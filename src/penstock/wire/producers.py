"""The HTTP contract of idempotent publishing: headers, envelopes, claims and responses.

docs/reference/http/producers.md documents it; docs/decisions/idempotent-producers.md explains the rules.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from penstock.core.events.event import NewEvent
from penstock.core.producers import EPOCH_MAX, GROUP_CHARS_MAX, EpochClaim, ProducerStamp
from penstock.errors import BadParameter, MalformedEvent, MalformedRequest
from penstock.schema.json_text import decode, explain_malformed, refuse_duplicate_keys
from penstock.wire.log.nakadi import parse_batch
from penstock.wire.query import make_printable

GROUP: Final = "Producer-Group"
EPOCH: Final = "Producer-Epoch"
SEQUENCE: Final = "Producer-Sequence"
OVERLAP: Final = "Producer-Overlap"
DEADLINE: Final = "Producer-Deadline-Ms"
PRODUCER_HEADERS: Final = (GROUP, EPOCH, SEQUENCE, OVERLAP, DEADLINE)
"""The headers of a request of an idempotent producer."""
NEXT: Final = "Producer-Next-Sequence"
ENVELOPE: Final = "application/vnd.penstock.producer+json"
"""Media type of a body that contains the producer's headers, for clients that cannot set headers."""
GROUP_PATTERN: Final = rf"(?!\.\.?$)[A-Za-z0-9._:~-]{{1,{GROUP_CHARS_MAX}}}"
"""Pattern of a producer group. One or two dots alone would disappear from an address."""
PRODUCERS_MAX: Final = 1_000
"""Maximum number of producers in one response."""
DEADLINE_MS_MAX: Final = 3_600_000
HEAD_BYTES_MAX: Final = 64 << 10
"""Upper bound of an envelope without its events."""
NUMBER_MAX: Final = EPOCH_MAX
"""Maximum epoch and sequence number: the largest integer that every JSON library represents exactly."""
_GROUP: Final = re.compile(GROUP_PATTERN)
_NUMBER: Final = re.compile("0|[1-9][0-9]{0,15}")
_HEADERS: Final = "bad-producer-headers"
"""The code of errors about producer headers."""
_GROUP_ALLOWED: Final = f"1 to {GROUP_CHARS_MAX} characters of A-Z, a-z, 0-9 and . _ : ~ -, but neither . nor .. alone"
_NUMBER_ALLOWED: Final = f"a whole number from 0 to {NUMBER_MAX} in decimal digits"


class ProducerHeaders(msgspec.Struct, frozen=True):
    """The producer headers of a request."""

    group: str
    stamp: ProducerStamp
    trims: bool = False
    deadline_ms: int | None = None


def parse_headers(headers: Mapping[str, str], values: Callable[[str], list[str]]) -> ProducerHeaders | None:
    """Return the producer headers; None if there are none. *values* returns all values of a header.

    Raises:
        BadParameter: A header is missing, repeated or malformed.
    """
    if GROUP not in headers and EPOCH not in headers and SEQUENCE not in headers:
        for name in (OVERLAP, DEADLINE):
            if name in headers:
                raise BadParameter.of(_HEADERS, parameter=GROUP, value=None, allowed=f"it, where there is {name}")
        return None
    texts = {name: _require_one(values(name), name) for name in (GROUP, EPOCH, SEQUENCE)}
    return ProducerHeaders(
        check_group(texts[GROUP], GROUP, _HEADERS),
        ProducerStamp(_parse_number(texts[EPOCH], EPOCH), _parse_number(texts[SEQUENCE], SEQUENCE)),
        _overlap(_require_one(values(OVERLAP), OVERLAP, "reject")),
        _parse_number(_require_one(values(DEADLINE), DEADLINE), DEADLINE, DEADLINE_MS_MAX)
        if DEADLINE in headers
        else None,
    )


def refuse_numbers(headers: Mapping[str, str], name: str) -> None:
    """Raise BadParameter if a request with producer headers names no partition."""
    if any(each in headers for each in PRODUCER_HEADERS):
        raise BadParameter.of("partition-required", event_type=name)


def check_group(text: str, parameter: str = "group", code: str = BadParameter.code) -> str:
    """Return *text*, the value of *parameter*, if it is a valid producer group.

    Raises:
        BadParameter: It is not valid; *code* is the code of the error.
    """
    given: object = text  # A caller without types may pass anything.
    if isinstance(given, str) and _GROUP.fullmatch(given):
        return text
    raise BadParameter.of(code, parameter=parameter, value=make_printable(str(text)), allowed=_GROUP_ALLOWED)


def parse_after(text: str | None) -> str:
    """Return the group after which a list begins; empty for the first page.

    Raises:
        BadParameter: *text* is not a valid producer group.
    """
    if text is None or _GROUP.fullmatch(text):
        return text or ""
    raise BadParameter(parameter="after", value=make_printable(text), allowed=_GROUP_ALLOWED)


def _require_one(values: Sequence[str], name: str, default: str | None = None) -> str:
    if len(values) > 1:
        raise BadParameter.of(_HEADERS, parameter=name, value=make_printable(values[1]), allowed="one value")
    if values:
        return values[0]
    if default is None:
        allowed = _GROUP_ALLOWED if name == GROUP else _NUMBER_ALLOWED
        raise BadParameter.of(_HEADERS, parameter=name, value=None, allowed=allowed)
    return default


def parse_number(text: str, name: str) -> int:
    """Return the epoch or sequence number in the parameter *name*.

    Raises:
        BadParameter: The value is not a valid number.
    """
    if not _NUMBER.fullmatch(text) or int(text) > NUMBER_MAX:
        raise BadParameter(parameter=name, value=make_printable(text), allowed=_NUMBER_ALLOWED)
    return int(text)


def _parse_number(text: str, name: str, high: int = NUMBER_MAX) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > high:
        raise BadParameter.of(
            _HEADERS,
            parameter=name,
            value=make_printable(text),
            allowed=_NUMBER_ALLOWED.replace(str(NUMBER_MAX), str(high)),
        )
    return int(text)


def _overlap(text: str) -> bool:
    if text in ("reject", "trim"):
        return text == "trim"
    raise BadParameter.of(_HEADERS, parameter=OVERLAP, value=make_printable(text), allowed="reject or trim")


class _Producer(msgspec.Struct, forbid_unknown_fields=True):
    group: str
    epoch: int
    sequence: int
    overlap: Literal["reject", "trim"] = "reject"
    deadline_ms: int | None = None


class _BatchEnvelope(msgspec.Struct, forbid_unknown_fields=True):
    producer: _Producer
    events: msgspec.Raw


_decode_envelope: Final = msgspec.json.Decoder(_BatchEnvelope).decode


def parse_envelope(body: bytes) -> tuple[ProducerHeaders, list[NewEvent]]:
    """Return the producer headers in an envelope, and its events, which are not decoded.

    Raises:
        BadParameter: The producer's members are malformed.
        RequestTooLarge: There are more than `EVENTS_MAX` events.
        MalformedRequest: The body is not an envelope.
    """
    try:
        found = _decode_envelope(body)
        by, array = found.producer, bytes(found.events)
        head = body.replace(array, b"[]", 1)  # The events are checked by themselves.
        if len(head) > HEAD_BYTES_MAX:
            raise _make_malformed_batch(f"beside its events it has at most {HEAD_BYTES_MAX} bytes, not {len(head)}")
        refuse_duplicate_keys(head, line=1)
    except msgspec.ValidationError as error:
        raise _make_malformed_batch(f'the body is {{"producer": {{...}}, "events": [...]}}: {error}') from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _make_malformed_batch(f"the body is not valid JSON: {explain_malformed(body, error)}") from None
    except MalformedEvent as error:
        raise _make_malformed_batch(f"the body: {error.reason}") from None
    if not array.startswith(b"["):
        raise _make_malformed_batch("its events are an array: they begin with [")
    try:
        events = parse_batch(array)
    except MalformedRequest as error:
        raise _make_malformed_batch(error.reason or error.detail) from None
    stamp = ProducerStamp(_check_number(by.epoch, EPOCH), _check_number(by.sequence, SEQUENCE))
    deadline_ms = None if by.deadline_ms is None else _check_number(by.deadline_ms, DEADLINE, DEADLINE_MS_MAX)
    return ProducerHeaders(check_group(by.group, GROUP, _HEADERS), stamp, by.overlap == "trim", deadline_ms), events


def _make_malformed_batch(reason: str) -> MalformedRequest:
    return MalformedRequest.of("malformed-batch", reason, reason=reason)


def _check_number(number: int, name: str, high: int = NUMBER_MAX) -> int:
    return _parse_number(str(number), name, high)


class _ClaimBody(msgspec.Struct, forbid_unknown_fields=True):
    epoch: int | Literal["next"] = "next"
    starting_sequence: int | None = None
    claim_id: str | None = None
    if_epoch: int | None = None
    pinned: bool | None = None


def parse_claim(body: bytes) -> EpochClaim:
    """Return the claim in a body; an empty body claims the next epoch.

    Raises:
        BadParameter: A member is unknown or malformed.
    """
    try:
        given = msgspec.convert(_decode_once(body) if body.strip() else {}, _ClaimBody)
    except msgspec.ValidationError as error:
        allowed = "epoch (a number, or next), starting_sequence, claim_id, if_epoch, pinned"
        raise BadParameter(f"the body: {error}; allowed: {allowed}", parameter="body", allowed=allowed) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadParameter(
            f"the body is not JSON: {explain_malformed(body, error)}", parameter="body", allowed="JSON"
        ) from None
    except MalformedEvent as error:
        raise BadParameter(f"the body: {error.reason}", parameter="body", allowed="strict JSON") from None
    epoch = None if given.epoch == "next" else given.epoch
    for name, number in (
        ("epoch", epoch),
        ("starting_sequence", given.starting_sequence),
        ("if_epoch", given.if_epoch),
    ):
        if number is not None and not 0 <= number <= NUMBER_MAX:
            raise BadParameter(parameter=name, value=number, allowed=f"a whole number from 0 to {NUMBER_MAX}")
    if given.claim_id is not None and not _GROUP.fullmatch(given.claim_id):
        raise BadParameter(parameter="claim_id", value=make_printable(given.claim_id), allowed=_GROUP_ALLOWED)
    return EpochClaim(epoch, given.starting_sequence, given.claim_id, given.if_epoch, given.pinned)


def _decode_once(body: bytes) -> Any:
    """Decode JSON without repeated members, which parsers interpret differently."""
    found = decode(body)
    refuse_duplicate_keys(body, line=1)
    return found


class PreviousEpoch(msgspec.Struct, frozen=True):
    """The state at the end of the previous epoch."""

    epoch: int
    next_sequence: int
    last_offset: int | None = None


class KnownRange(msgspec.Struct, frozen=True):
    """The first batch of the current epoch that the hub remembers."""

    batches: int
    oldest_sequence: int | None = None


class ProducerProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a producer in a partition."""

    producer_group: str
    partition: int
    epoch: int
    last_published_sequence: int | None
    next_sequence: int | None
    """The next sequence number; None if the state has expired."""
    last_offset: int | None
    previous: PreviousEpoch | None
    window: KnownRange | None = None
    pinned: bool
    expired: bool
    updated_at: str
    expires_at: str | None
    expires_after_seconds: float
    """Seconds of inactivity after which the state expires."""
    sequence_modulus: int


class SequenceRange(msgspec.Struct, frozen=True):
    """The sequence numbers of a batch, and the next one."""

    first: int
    last: int
    next: int


class OffsetSpan(msgspec.Struct, frozen=True):
    """A contiguous range of offsets."""

    first: int
    last: int


class PublishedBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response to a batch: all of it is stored, once."""

    outcome: Literal["appended", "duplicate", "trimmed"]
    epoch: int
    sequence: SequenceRange
    offsets: OffsetSpan | None = None
    ranges: list[OffsetSpan] = []
    """The ranges of offsets, instead of `offsets`, if they are not contiguous."""


class OutcomeRecord(msgspec.Struct, frozen=True):
    """The outcome of a batch."""

    epoch: int
    stored: bool | None
    """Whether the whole batch is stored; None if the hub has forgotten it."""
    ranges: list[OffsetSpan]
