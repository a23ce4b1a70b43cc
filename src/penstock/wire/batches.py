"""The HTTP contract of uploads and batches."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from penstock.errors import BadParameter, MalformedEvent
from penstock.schema.json_text import explain_malformed, refuse_duplicate_keys
from penstock.wire.producers import NUMBER_MAX, check_group
from penstock.wire.query import make_printable

CHUNK_EVENTS_MAX: Final = 5_000
"""Maximum number of lines in a chunk."""
UPLOADS_MAX: Final = 10_000
"""Maximum number of uploads in a batch."""
QUERY_CHARS_MAX: Final = 200
UPLOAD_PATTERN: Final = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
DIGEST_PATTERN: Final = "[0-9a-f]{32}"
_DIGEST: Final = re.compile(DIGEST_PATTERN)
_QUERY: Final = re.compile(rf"[!-~]{{1,{QUERY_CHARS_MAX}}}")


class OpenUpload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to open an upload for a batch."""

    producer_group: str
    batch: int
    query: str
    """The publisher of the batch, such as the id of a Spark query."""


class OpenedUpload(msgspec.Struct, frozen=True):
    """An upload that accepts chunks."""

    upload: str
    expires_after_seconds: float
    """Seconds without a chunk or a publish after which the upload expires."""


class RejectedLine(msgspec.Struct, frozen=True):
    """A line that is not a valid event."""

    line: int
    reason: str


class AcceptedChunk(msgspec.Struct, frozen=True):
    """A chunk as it is stored."""

    chunk: int
    events: int
    """Number of valid events."""
    digest: str
    """BLAKE2b of the body, 16 bytes in hexadecimal digits."""
    rejected: Sequence[RejectedLine] = ()


class UploadPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An upload in a batch."""

    upload: str
    chunks: int
    events: int
    digest: str
    """BLAKE2b of the concatenated digests of its chunks, 16 bytes in hexadecimal digits."""


class PublishBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to publish a batch: its uploads in order."""

    query: str
    uploads: Sequence[UploadPart]


class BatchStatus(msgspec.Struct, frozen=True):
    """The progress of a batch."""

    producer_group: str
    batch: int
    query: str
    state: str
    """`published`, or `publishing` while it is incomplete."""
    events: int
    """Number of events in the feed."""
    rejected: int
    """Number of invalid lines, which are stored among the rejected events."""
    offsets: Mapping[str, Sequence[Sequence[int]]]
    """Ranges of first and last offset, by partition."""
    begun_at: str
    updated_at: str


class BatchList(msgspec.Struct, frozen=True):
    """The newest batches of a producer group."""

    items: Sequence[BatchStatus]


class ForgottenBatches(msgspec.Struct, frozen=True):
    """Number of batches that were forgotten."""

    forgotten: int


def parse_open(body: bytes) -> OpenUpload:
    """Parse the request to open an upload.

    Raises:
        BadParameter: A member is missing, unknown or invalid.
    """
    found = _parse(body, OpenUpload)
    check_group(found.producer_group, "producer_group")
    _check_number("batch", found.batch)
    _check_query(found.query)
    return found


def parse_publish(body: bytes) -> PublishBatch:
    """Parse the request to publish a batch.

    Raises:
        BadParameter: A member is missing, unknown or invalid.
    """
    found = _parse(body, PublishBatch)
    _check_query(found.query)
    if len(found.uploads) > UPLOADS_MAX:
        raise BadParameter(parameter="uploads", value=len(found.uploads), allowed=f"up to {UPLOADS_MAX}")
    for part in found.uploads:
        _check_number("chunks", part.chunks)
        _check_number("events", part.events)
        if not _DIGEST.fullmatch(part.digest):
            raise BadParameter(parameter="digest", value=make_printable(part.digest), allowed="32 hexadecimal digits")
    return found


def _check_number(name: str, number: int) -> None:
    if not 0 <= number <= NUMBER_MAX:
        raise BadParameter(parameter=name, value=number, allowed=f"a whole number from 0 to {NUMBER_MAX}")


def _check_query(query: str) -> None:
    if not _QUERY.fullmatch(query):
        allowed = f"1 to {QUERY_CHARS_MAX} printable characters of ASCII without spaces"
        raise BadParameter(parameter="query", value=make_printable(query), allowed=allowed)


Body = TypeVar("Body", bound=msgspec.Struct)


def _parse(body: bytes, kind: type[Body]) -> Body:
    allowed = ", ".join(kind.__struct_fields__)
    try:
        found = msgspec.json.decode(body, type=kind)
        refuse_duplicate_keys(body, line=1)
    except msgspec.ValidationError as error:
        raise BadParameter(f"the body: {error}; allowed: {allowed}", parameter="body", allowed=allowed) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"the body is not JSON: {explain_malformed(body, error)}"
        raise BadParameter(detail, parameter="body", allowed="JSON") from None
    except MalformedEvent as error:
        raise BadParameter(f"the body: {error.reason}", parameter="body", allowed="strict JSON") from None
    return found
