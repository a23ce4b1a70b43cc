"""Errors of publishing in batches: uploads, and the batches of Spark queries."""

from typing import ClassVar

from penstock.errors.root import Case, Conflict, NotFound

_START_OVER = (
    "If this query lost its checkpoint, it publishes all its events again: give it a new producer group. To let it "
    "take over this group, delete the group's batches first: DELETE .../producers/{group}/batches."
)


class BatchFenced(Conflict):
    """A batch may not be published: another query, or a later batch, has taken over the producer group."""

    code = "batch-fenced"
    cases: ClassVar = {
        "batch-of-another-query": Case(
            "producer group {producer_group!r} belongs to query {query!r}, which published batch {newest} last",
            _START_OVER,
        ),
        "batch-superseded": Case(
            "producer group {producer_group!r} has already published batch {newest}: batch {batch} is too late",
            _START_OVER,
        ),
    }

    event_type: str
    producer_group: str
    batch: int
    newest: int
    """The last batch of the group."""
    query: str | None
    """The query that owns the group; None in `batch-superseded`."""


class BatchNotFound(NotFound):
    """There is no such batch or upload, or its record has expired."""

    code = "batch-not-found"
    message = "producer group {producer_group!r} has not published batch {batch} to {event_type!r}, or it has expired"
    hint = "List the newest batches: GET .../producers/{group}/batches."
    cases: ClassVar = {
        "upload-not-found": Case(
            "there is no open upload {upload!r} for {event_type!r}",
            "An upload belongs to one batch, one producer group and one query, and expires after a day. Open a new "
            "upload and send its events again.",
        ),
    }

    event_type: str
    producer_group: str | None
    """The producer group in `batch-not-found`."""
    batch: int | None
    """The batch in `batch-not-found`."""
    upload: str | None
    """The upload in `upload-not-found`."""


class BatchRefused(Conflict):
    """An earlier batch is incomplete, or an upload is closed or differs from its announcement or its earlier chunks."""

    code = "batch-refused"
    cases: ClassVar = {
        "batch-unfinished": Case(
            "producer group {producer_group!r} has not completed batch {newest}, which comes before batch {batch}",
            "Publish batch `newest` again: its stored events stay, and publishing continues after them.",
        ),
        "upload-taken": Case(
            "upload {upload!r} belongs to a batch that is being published, or was deleted: it takes no more chunks",
            "Open a new upload.",
        ),
        "upload-incomplete": Case(
            "upload {upload!r} differs from its announcement: {reason}",
            "Send the missing chunks, or announce the upload as it is.",
        ),
        "chunk-differs": Case(
            "chunk {chunk} of upload {upload!r} was sent before with different lines",
            "Repeat a chunk unchanged, or open a new upload for recomputed lines.",
        ),
    }

    event_type: str
    producer_group: str | None
    """The producer group in `batch-unfinished`."""
    batch: int | None
    """The batch in `batch-unfinished`."""
    newest: int | None
    """The incomplete earlier batch, in `batch-unfinished`."""
    upload: str | None
    """The upload in the other cases."""
    reason: str | None
    """What differs, in `upload-incomplete`."""
    chunk: int | None
    """The chunk in `chunk-differs`."""
