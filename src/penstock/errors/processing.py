"""Errors of processors, projections and their sources."""

from typing import Any, ClassVar

from penstock.errors.root import Case, Conflict, Invalid, NotFound, PenstockError


class EventUnusable(Invalid):
    """An event cannot be decoded as the requested type, or no handler, deduplication or ordering can use it."""

    code = "event-unusable"
    cases: ClassVar = {
        "eid-missing": Case(
            "{event} has no id: metadata.eid {reason}",
            "Business and data events have an eid. Nothing of the batch was stored: roll back, and store no cursors.",
        ),
        "order-unknown": Case(
            "{event} cannot be put in order: {reason}",
            "Nothing of the batch was stored: roll back, and store no cursors until you have decided what to do with "
            "the event.",
        ),
        "kind-unexpected": Case(
            "{stream}: the event at {index} is of kind {kind!r}, which has no handler; kinds with a handler: {kinds}",
            "Add a handler for this kind to by_kind, or one for all others with `otherwise`.",
        ),
        "wrong-category": Case(
            "the category of {event_type!r} is {category}, not {wanted}: {reason}",
            "Read an event type of that category, or make the effects idempotent.",
        ),
        "event-unfit": Case(
            "{event} is no {type}: {member} {reason}",
            "Correct the type. Or skip the event: keep event.raw and continue; the cursors of the page are after it.",
        ),
    }

    event_type: str | None
    partition: Any
    index: int | None
    """Index of the event in its batch, from 0; in its stream in `kind-unexpected`."""
    kind: str | None
    """The kind of the event, in `kind-unexpected`."""
    kinds: list[str] | None
    """The kinds that have a handler, in `kind-unexpected`."""
    stream: str | None
    """The stream of the event, in `kind-unexpected`."""
    eid: str | None
    feed: str | None
    """The feed in `event-unfit`."""
    cursor: str | None
    """The last cursor before the event, in `event-unfit`."""
    place: int | None
    """Number of the event after that cursor, from 1, in `event-unfit`."""
    type: str | None
    """The requested type, in `event-unfit`."""
    member: str | None
    """The member of the event that does not fit, in `event-unfit`."""
    event: str | None
    """Description of the event, by its position; None in `wrong-category`."""
    reason: str | None
    category: str | None
    """The category in `wrong-category`."""
    wanted: str | None
    """The needed category, in `wrong-category`."""


class BadOutcome(Invalid):
    """A handler or batcher has returned an invalid result."""

    code = "bad-outcome"
    message = "a handler has returned {returned}, which is no outcome"
    hint = "Return None (all is done), the next index to handle, or the result of done, done_to, retry or skip_to."
    cases: ClassVar = {
        "bad-results": Case(
            "a call with {items} items has returned {returned}, which is not a result for each",
            "Return a list with one result for each item, in their order, or create the batcher without `each`.",
        ),
    }

    returned: str
    items: int | None
    """Number of items, in `bad-results`."""


class ProcessorUnhealthy(PenstockError):
    """A processor exceeded a limit of its health rules: for streams without progress, or for a silent source."""

    code = "processor-unhealthy"
    message = "streams make no progress: {streams}"
    hint = "Correct the handler and start again: the processor continues with the unhandled events."
    cases: ClassVar = {
        "source-silent": Case(
            "the source has not answered for {seconds} s; health.unanswered_seconds_max is {most}",
            "The log shows the cause, for instance that the hub is down. Start again: the processor continues where it "
            "stopped.",
        ),
    }

    streams: list[str] | None
    """The streams, each with the time since its last progress; None in `source-silent`."""
    seconds: float | None
    """Time since the last answer, in `source-silent`."""
    most: float | None
    """The limit in `source-silent`."""


class HandlerFailed(PenstockError):
    """A handler has failed at an event as often as the retry policy allows, or the fold of a projection has failed."""

    code = "stream-exhausted"
    message = "{stream}: the event at {index} has failed {attempts} times, the last time with {tag}: {reason}"
    hint = (
        "Correct the handler and start again: the processor continues with the unhandled events. At level DEBUG, the "
        "logger penstock.processing shows the traceback."
    )
    cases: ClassVar = {
        "fold-failed": Case(
            "{projection}: events cannot be folded: {failures}",
            "One failure of each tranche is shown; a tranche is read up to the round of its failure, all others are "
            "folded to their ends. Correct the fold, raise its version if other rows change too, and start again.",
        ),
    }

    stream: str | None
    """The stream in `stream-exhausted`; the next four fields are about its event."""
    index: int | None
    attempts: int | None
    tag: str | None
    reason: str | None
    projection: str | None
    """The projection in `fold-failed`."""
    failures: list[str] | None
    """One failure of each tranche that has any, in `fold-failed`."""


class CheckpointMoved(PenstockError):
    """Compare-and-set of a checkpoint failed: another process has committed a position."""

    code = "checkpoint-moved"
    message = "{group}: the checkpoint of {tranche!r} is {at_found}; this processor has left it {at_expected}"
    hint = "Another processor runs under this name, or somebody moved the checkpoint. Stop one of them, or start again."

    group: str
    tranche: str
    expected: Any
    found: Any


class TransactionFailed(PenstockError):
    """The transaction of a processor was ended by its handler, or its commit has an unknown outcome."""

    code = "transaction-failed"
    cases: ClassVar = {
        "commit-unknown": Case(
            "{processor}: it is unknown whether the last transaction was committed: its database does not answer",
            "Start the processor when the database is back: it finds out, and continues after the last commit.",
        ),
        "transaction-ended": Case(
            "{processor}: its handler has ended the transaction of its call; the positions are not part of it",
            "A Transactional handler must not commit or roll back: the processor does so after the handler returns.",
        ),
    }

    processor: str


class ProjectionNotFound(NotFound):
    """A projection has no rows, or its rows were removed while its positions stayed."""

    code = "projection-not-found"
    message = "{path} has no rows of {projection}"
    hint = "Run a processor of this projection, or project(), to create them."
    cases: ClassVar = {
        "projection-gone": Case(
            "{path} has no rows of {projection} any more, but its positions: {positions}",
            "Restore the rows. To rebuild them from the beginning, delete the positions too: `penstock groups "
            "delete`, or the folder of the version.",
        ),
    }

    projection: str
    path: str
    positions: Any
    """The remaining positions, in `projection-gone`."""


class ProjectionBehind(Conflict):
    """A version of a projection is behind the version in use."""

    code = "projection-behind"
    message = "{projection} is behind {shown}, which is in use: {behind}"
    hint = (
        "Let its processor catch up before you switch. `penstock groups parked list` shows parked streams: retry "
        "or skip them. even_if_behind=True switches anyway."
    )

    projection: str
    shown: str
    """The version in use."""
    behind: Any
    """By tranche."""
