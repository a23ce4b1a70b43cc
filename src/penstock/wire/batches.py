"""The contract of staged publishing over HTTP: what is asked, and what is answered."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from penstock.errors import BadParameter, MalformedEvent
from penstock.schema.json_text import refuse_duplicate_keys, why_malformed
from penstock.wire.producers import NUMBER_MAX, check_group
from penstock.wire.query import shown

CHUNK_EVENTS_MAX: Final = 5_000
"""How many lines a chunk has at most."""
UPLOADS_MAX: Final = 10_000
"""How many uploads a batch has at most."""
QUERY_CHARS_MAX: Final = 200
UPLOAD_PATTERN: Final = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
DIGEST_PATTERN: Final = "[0-9a-f]{32}"
_DIGEST: Final = re.compile(DIGEST_PATTERN)
_PARTITION: Final = re.compile("0|[1-9][0-9]{0,5}")
_QUERY: Final = re.compile(rf"[!-~]{{1,{QUERY_CHARS_MAX}}}")


class OpenUpload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an upload is for."""

    producer_group: str
    batch: int
    query: str
    """Who publishes the batch, such as the id of a Spark query."""


class Upload(msgspec.Struct, frozen=True):
    """An upload that takes chunks."""

    upload: str
    expires_after_seconds: float
    """So long it waits for its next chunk, or to be published."""


class Rejected(msgspec.Struct, frozen=True):
    """A line that is no valid event."""

    line: int
    reason: str


class Chunk(msgspec.Struct, frozen=True):
    """A chunk as it is kept."""

    chunk: int
    events: int
    """How many of its lines are valid events."""
    digest: str
    """BLAKE2b of the body, 16 bytes in hexadecimal digits."""
    rejected: Sequence[Rejected] = ()


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An upload as a batch names it."""

    upload: str
    chunks: int
    events: int
    digest: str
    """BLAKE2b of its chunks' digests one after the other, 16 bytes in hexadecimal digits."""


class PublishBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a batch is made of, in its order."""

    query: str
    uploads: Sequence[Part]


class BeginBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose batch it is that tasks are to publish directly."""

    query: str


class CompleteBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the tasks of a batch have published."""

    query: str
    events: Mapping[str, int]
    """How many, by partition."""


class Batch(msgspec.Struct, frozen=True):
    """A batch, and how far it is published."""

    producer_group: str
    batch: int
    query: str
    mode: str
    """`staged`: of uploads; or `direct`: by its tasks."""
    state: str
    """`published`, or `publishing`: begun, and not at its end."""
    events: int
    """How many are in the feed."""
    rejected: int
    """How many lines were no valid events: they stand among the rejected."""
    offsets: Mapping[str, Sequence[Sequence[int]]]
    """Where they are: by partition, ranges of the first and the last."""
    begun_at: str
    updated_at: str
    partitions: int | None = None
    """Into how many the tasks of a direct batch divide it."""
    epoch: int | None = None
    """In which they publish."""


class Batches(msgspec.Struct, frozen=True):
    """The newest batches of a producer group."""

    items: Sequence[Batch]


class Forgotten(msgspec.Struct, frozen=True):
    """How many batches were forgotten."""

    forgotten: int


def parse_open(body: bytes) -> OpenUpload:
    """Read what an upload is for.

    Raises:
        BadParameter: a member is missing, unknown or wrong.
    """
    found = _parsed(body, OpenUpload)
    check_group(found.producer_group, "producer_group")
    _check_number("batch", found.batch)
    _check_query(found.query)
    return found


def parse_publish(body: bytes) -> PublishBatch:
    """Read what a batch is made of.

    Raises:
        BadParameter: a member is missing, unknown or wrong.
    """
    found = _parsed(body, PublishBatch)
    _check_query(found.query)
    if len(found.uploads) > UPLOADS_MAX:
        raise BadParameter(parameter="uploads", value=len(found.uploads), allowed=f"up to {UPLOADS_MAX}")
    for part in found.uploads:
        _check_number("chunks", part.chunks)
        _check_number("events", part.events)
        if not _DIGEST.fullmatch(part.digest):
            raise BadParameter(parameter="digest", value=shown(part.digest), allowed="32 hexadecimal digits")
    return found


def parse_begin(body: bytes) -> BeginBatch:
    """Read whose batch is to be begun.

    Raises:
        BadParameter: a member is missing, unknown or wrong.
    """
    found = _parsed(body, BeginBatch)
    _check_query(found.query)
    return found


def parse_complete(body: bytes) -> tuple[str, Mapping[int, int]]:
    """Read whose batch is complete, and how many events its tasks have published by partition.

    Raises:
        BadParameter: a member is missing, unknown or wrong.
    """
    found = _parsed(body, CompleteBatch)
    _check_query(found.query)
    for partition, events in found.events.items():
        if not _PARTITION.fullmatch(partition):
            raise BadParameter(parameter="events", value=shown(partition), allowed="partitions as names, such as 0")
        _check_number("events", events)
    return found.query, {int(partition): events for partition, events in found.events.items()}


def _check_number(name: str, number: int) -> None:
    if not 0 <= number <= NUMBER_MAX:
        raise BadParameter(parameter=name, value=number, allowed=f"a whole number from 0 to {NUMBER_MAX}")


def _check_query(query: str) -> None:
    if not _QUERY.fullmatch(query):
        allowed = f"1 to {QUERY_CHARS_MAX} printable characters of ASCII without spaces"
        raise BadParameter(parameter="query", value=shown(query), allowed=allowed)


Body = TypeVar("Body", bound=msgspec.Struct)


def _parsed(body: bytes, kind: type[Body]) -> Body:
    allowed = ", ".join(kind.__struct_fields__)
    try:
        found = msgspec.json.decode(body, type=kind)
        refuse_duplicate_keys(body, line=1)
    except msgspec.ValidationError as error:
        raise BadParameter(f"the body: {error}; allowed: {allowed}", parameter="body", allowed=allowed) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"the body is not JSON: {why_malformed(body, error)}"
        raise BadParameter(detail, parameter="body", allowed="JSON") from None
    except MalformedEvent as error:
        raise BadParameter(f"the body: {error.reason}", parameter="body", allowed="strict JSON") from None
    return found
