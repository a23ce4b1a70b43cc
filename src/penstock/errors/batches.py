"""Errors of publishing in batches: uploads, and the batches of Spark queries."""

from penstock.errors.root import Conflict, Invalid, NotFound, PenstockError

_ANEW = (
    "A query that has lost its checkpoint publishes all of its events again: give it a producer group of its own. To "
    "have it go on in the place of the one before, forget what that published: DELETE .../producers/{group}/batches."
)


class BatchOfAnotherQuery(Conflict):
    """The producer group is another query's."""

    code = "batch-of-another-query"
    message = "{producer_group!r} is the producer group of the query {query!r}, whose last batch was {newest}"
    hint = _ANEW

    event_type: str
    producer_group: str
    batch: int
    newest: int
    """The last batch of the group."""
    query: str
    """The query that owns the group."""


class BatchSuperseded(Conflict):
    """A later batch of the group was published."""

    code = "batch-superseded"
    message = "{producer_group!r} has published batch {newest} already: batch {batch} comes too late"
    hint = _ANEW

    event_type: str
    producer_group: str
    batch: int
    newest: int


class BatchUnfinished(Conflict):
    """The batch before is not published to its end."""

    code = "batch-unfinished"
    message = "{producer_group!r} has not published batch {newest} to its end: batch {batch} comes after that"
    hint = "Publish the batch before again: what of it is in the feed stays, and it goes on from there."

    event_type: str
    producer_group: str
    batch: int
    newest: int


class BatchOfAnotherMode(Conflict):
    """The batch was begun in another way, and is not published to its end."""

    code = "batch-of-another-mode"
    message = "{producer_group!r} has begun batch {batch} in mode {mode}, and not published it to its end"
    hint = "Publish it to its end in that mode, and the batches after it in another one."

    event_type: str
    producer_group: str
    batch: int
    mode: str
    """Direct or staged."""


class BatchIncomplete(Conflict):
    """What is stored of a batch that its tasks have published is not what they have counted."""

    code = "batch-incomplete"
    message = (
        "{producer_group!r} counted {counted} events of batch {batch} in partition {partition}, and {stored} are stored"
    )
    hint = "A task was passed over, or the batch was made anew and came out otherwise: publish it again as it was."

    event_type: str
    producer_group: str
    batch: int
    partition: int
    counted: int
    """Events that the tasks have reported."""
    stored: int
    """Events that the hub has stored."""


class BatchNotFound(NotFound):
    """No such batch was published."""

    code = "batch-not-found"
    message = "{producer_group!r} has not published a batch {batch} to {event_type!r}, or it is not known any more"

    event_type: str
    producer_group: str
    batch: int


class NonDeterministicReplay(Conflict):
    """A batch that was made anew is another one."""

    code = "non-deterministic-replay"
    message = "batch {batch} of {producer_group!r} was made anew, and is another one than before: {reason}"
    hint = (
        "Let the query give the same rows whenever a batch is made anew (no rand(), uuid() or "
        "time of day; an order by which rows differ), and forget what is begun of the batch: DELETE "
        ".../producers/{group}/batches?unfinished=true, by which its events are published again. Or publish with the "
        "option mode=staged, for which no query needs care."
    )

    event_type: str
    producer_group: str
    batch: int
    reason: str


class RowsScattered(Conflict):
    """Rows of one partition came from several tasks."""

    code = "rows-scattered"
    message = "several tasks have published to partition {partition} of {event_type!r} at once"
    hint = "In mode direct, rows are laid out by partition first: write what penstock.spark.direct(rows, ...) returns."

    event_type: str
    partition: int


class InvalidRow(Invalid):
    """A row of a Spark query is no valid event."""

    code = "invalid-row"
    message = "a row is no valid event of {event_type!r}: {reason}; it begins {row}"
    hint = "Mend the query; or set the option onInvalid to reject: such rows are then kept among the rejected."

    event_type: str
    reason: str
    row: str
    """The beginning of the event."""


class UploadNotFound(NotFound):
    """There is no such upload, or it has expired."""

    code = "upload-not-found"
    message = "no upload {upload!r} waits to be published to {event_type!r}"
    hint = (
        "Uploads are of one batch, one producer group and one query, and expire after a day: hand its events in again."
    )

    event_type: str
    upload: str


class UploadTaken(Conflict):
    """The upload is part of a batch that is being published, or was dropped."""

    code = "upload-taken"
    message = "the upload {upload!r} is part of a batch by now, or was dropped: it takes no more chunks"

    event_type: str
    upload: str


class UploadIncomplete(Invalid):
    """An upload is not what it was said to be."""

    code = "upload-incomplete"
    message = "the upload {upload!r} is not what was said: {reason}"

    event_type: str
    upload: str
    reason: str


class ChunkDiffers(Conflict):
    """There is a chunk of that number with other lines."""

    code = "chunk-differs"
    message = "chunk {chunk} of the upload {upload!r} was handed in with other lines before"
    hint = "A chunk that is sent again is sent as it was; what is made anew goes into an upload of its own."

    event_type: str
    upload: str
    chunk: int


class TooManyUploads(PenstockError):
    """Too many uploads wait."""

    code = "too-many-uploads"
    message = "{limit} uploads wait to be published to {event_type!r}"
    hint = "Uploads that are not published expire after a day; DELETE .../uploads/{upload} forgets one now."

    event_type: str
    limit: int
