"""Errors of processors, projections and their sources."""

from typing import Any

from penstock.errors.root import Conflict, Invalid, NotFound, PenstockError


class WrongCategory(Invalid):
    """Events of this category have not what is needed."""

    code = "wrong-category"
    message = "the category of {event_type!r} is {category}, not {wanted}: {reason}"
    hint = "Read an event type of that category, or see to it that an effect can be brought about twice."

    event_type: str
    category: str
    wanted: str
    reason: str


class EidMissing(Invalid):
    """An event has no id."""

    code = "eid-missing"
    message = "{told} has no id: metadata.eid {reason}"
    hint = "Business and data events have one. Nothing of its batch was remembered: roll back, and store no cursors."

    event_type: str | None
    partition: Any
    index: int | None
    """Number of the event in its batch, from 0."""
    told: str
    reason: str


class OrderUnknown(Invalid):
    """It cannot be told where an event stands among others."""

    code = "order-unknown"
    message = "{told} cannot be put in order: {reason}"
    hint = "Nothing of its batch was remembered: roll back, and store no cursors before you know what to do with it."

    event_type: str | None
    partition: Any
    index: int | None
    """Number of the event in its batch, from 0."""
    eid: str | None
    told: str
    reason: str


class OutsideTransaction(Conflict):
    """What is remembered would be committed at once, before the effect that it stands for."""

    code = "outside-transaction"
    message = "no transaction is open, and the connection commits each statement at once"
    hint = "Begin one (BEGIN IMMEDIATE; connection.transaction()), and do in it what the events are to bring about."


class BadOutcome(Invalid):
    """A handler has returned something that is no outcome."""

    code = "bad-outcome"
    message = "a handler has returned {returned}, which is no outcome"
    hint = "Right are None (all is done), the index wanted next, or what done, done_to, retry and skip_to return."

    returned: str


class BadResults(Invalid):
    """A batcher's call was to return a result for each item, and has not."""

    code = "bad-results"
    message = "a call with {items} items has returned {returned}, which is not a result for each"
    hint = "Return a list with a result for each item, in their order, or have what is returned be everyone's."

    items: int
    """Number of items."""
    returned: str


class KindUnexpected(PenstockError):
    """There is no handler for events of a kind."""

    code = "kind-unexpected"
    message = "{stream}: the event at {index} is of kind {kind!r}, for which there is no handler; there are: {kinds}"
    hint = "Give by_kind a handler for it, or one for all others with `otherwise`."

    kind: str
    stream: str
    index: int
    kinds: list[str]
    """The kinds that have a handler."""


class ProcessorUnhealthy(PenstockError):
    """A stream has made no progress for longer than the processor bears."""

    code = "processor-unhealthy"
    message = "streams make no progress: {streams}"
    hint = "Mend the handler and start again: it goes on where it was, with what is not handled."

    streams: list[str]
    """Which streams, and for how long."""


class SourceSilent(PenstockError):
    """A processor's source has not answered for longer than it may."""

    code = "source-silent"
    message = "the source has not answered for {seconds} s; health.unanswered_seconds_max is {most}"
    hint = "The log says what failed, such as a hub that is away. Start again: the processor goes on where it was."

    seconds: float
    most: float


class StreamExhausted(PenstockError):
    """An event was tried as often as it may be."""

    code = "stream-exhausted"
    message = "{stream}: the event at {index} has failed {attempts} times, the last time with {tag}: {reason}"
    hint = (
        "Mend the handler and start again: it goes on where it was, with what is not handled. Where it has raised, the "
        "logger penstock.processing says at DEBUG."
    )

    stream: str
    index: int
    attempts: int
    tag: str
    reason: str


class FoldFailed(PenstockError):
    """Events could not be folded into rows."""

    code = "fold-failed"
    message = "{projection}: events cannot be folded: {failures}"
    hint = (
        "One is named of each tranche, which is read no further than the round in which it failed; other tranches are "
        "folded to their ends. Mend the fold, and raise its version where that changes other rows; then go on."
    )

    projection: str
    failures: list[str]
    """One failure of each tranche that has any."""


class CheckpointMoved(PenstockError):
    """Somebody else has committed a position meanwhile."""

    code = "checkpoint-moved"
    message = "{group}: the checkpoint of {tranche!r} is {at_found}; this processor has left it {at_expected}"
    hint = "Another processor runs under this name, or somebody has moved it: stop one of them, or start again."

    group: str
    tranche: str
    expected: Any
    found: Any


class CheckpointNotFound(NotFound):
    """Nothing is kept for a processor."""

    code = "checkpoint-not-found"
    message = "no position is kept for {processor!r}"
    hint = "penstock checkpoint list shows those that a hub keeps, and with --database those in a database."

    processor: str


class CommitUnknown(PenstockError):
    """Whether a processor's effects and positions are committed is not known."""

    code = "commit-unknown"
    message = (
        "{processor}: nobody knows whether its last transaction was committed: its database has not answered since"
    )
    hint = "Start it again when the database is back: it finds out, and goes on with what is not committed."

    processor: str


class TransactionEnded(PenstockError):
    """A handler has ended the transaction that it was called in."""

    code = "transaction-ended"
    message = (
        "{processor}: its handler has ended the transaction that it was called in, so its positions are not with it"
    )
    hint = "A handler of Transactional neither commits nor rolls back: that is done when it has returned."

    processor: str


class AlreadyStarted(Conflict):
    """A processor was to be started that was started, or stopped, before."""

    code = "already-started"
    message = "{processor} was started or stopped before, and a processor runs once"
    hint = "Make another one with the same name and checkpoints: it goes on where this one was."

    processor: str


class ParkedStreamNotFound(NotFound):
    """No stream of that name is parked."""

    code = "parked-stream-not-found"
    message = "{processor!r} has parked no stream {stream!r}"
    hint = "penstock checkpoint parked shows those that there are."

    processor: str
    stream: str


class ProjectionNotFound(NotFound):
    """There are no rows of a projection."""

    code = "projection-not-found"
    message = "{path} has no rows of {projection}"
    hint = "A processor of that projection makes them, or project()."

    projection: str
    path: str


class ProjectionBehind(Conflict):
    """A version of a projection is not as far as the one in use."""

    code = "projection-behind"
    message = "{projection} is not as far as {shown}, which is in use: {behind}"
    hint = (
        "Have its processor catch up before you switch; where rows are parked, which `penstock checkpoint parked` "
        "tells, have them retried or dropped. With even_if_behind=True it is in use as it is."
    )

    projection: str
    shown: str
    """The version in use."""
    behind: Any
    """By tranche."""


class ProjectionGone(Conflict):
    """Rows of a projection are not there any more, and how far they went is."""

    code = "projection-gone"
    message = "{path} has no rows of {projection} any more, but how far they went: {positions}"
    hint = (
        "Put them back. Or have them made anew from the beginning: then that is to go, too, by `penstock checkpoint "
        "forget`, or in files with the folder of the version."
    )

    projection: str
    path: str
    positions: Any


class NotReplayable(PenstockError):
    """A source was to give again what it gives once."""

    code = "not-replayable"
    message = "{source} gives its events once: what was read cannot be read again"
    hint = "Let such a processor stop where events cannot be handled, or read from a source that keeps its events."

    source: str


class InvalidLine(Invalid):
    """A line of a file is no event."""

    code = "invalid-line"
    message = "{file}, line {line}: {reason}"
    hint = (
        "All before it was read. Mend the line, or begin it with # to have it passed over; or put the file back whole, "
        "where it ends in the middle. Then start again."
    )

    file: str
    line: int
    """Number of the line, from 1."""
    reason: str


class FileChanged(PenstockError):
    """A file is not the one that was read before."""

    code = "file-changed"
    message = "{file} cannot be read on: {reason}"
    hint = (
        "Files are read on by their names: put it back, or move its position to 0:0#0, so that it is read from its "
        "beginning. Its lines have the indices of the other's: where these are kept, take another version or group."
    )

    file: str
    reason: str
