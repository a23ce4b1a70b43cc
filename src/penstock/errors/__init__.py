"""Every error that Penstock raises.

    PenstockError
    ├── Invalid                  what was handed in cannot be right
    │   ├── BadParameter
    │   │   └── BadProducerHeaders
    │   ├── PartitionRequired
    │   ├── BadCursor
    │   ├── UnusableCursor
    │   │   └── UnusableStart
    │   ├── BadStreamParameter
    │   ├── BadPartitionCount
    │   ├── InvalidEvent
    │   │   └── MalformedEvent
    │   ├── InvalidEventType
    │   │   └── MalformedEventType
    │   ├── InvalidSubscription
    │   │   └── MalformedSubscription
    │   ├── IncompatibleSchema
    │   ├── GuidelinesBroken
    │   ├── MalformedBatch
    │   ├── StreamNotFound
    │   ├── CommitRefused
    │   ├── UnknownConsumer
    │   ├── PartitionRefused
    │   ├── UndeletableEvents
    │   ├── InvalidSetting
    │   ├── StorageFixed
    │   ├── EncodingRefused
    │   ├── UnsupportedMediaType
    │   ├── MalformedRequest
    │   ├── NotAcceptable
    │   │   └── ArrowNotInstalled
    │   ├── WrongCategory
    │   ├── EidMissing
    │   ├── OrderUnknown
    │   ├── UnusablePosition
    │   ├── UploadIncomplete
    │   ├── InvalidRow
    │   ├── InvalidLine
    │   ├── BadOutcome
    │   ├── BadResults
    │   └── EventUnfit
    ├── TooLarge
    │   ├── EventTooLarge
    │   ├── BodyTooLarge
    │   ├── TargetTooLong
    │   ├── HeadersTooLarge
    │   └── TooManyEvents
    ├── NotFound
    │   ├── EventTypeNotFound
    │   ├── PartitionNotFound
    │   ├── CursorSetNotFound
    │   ├── GroupNotFound
    │   ├── StorageNotFound
    │   ├── ProducerNotFound
    │   ├── SubscriptionNotFound
    │   ├── ParkedNotFound
    │   ├── CheckpointNotFound
    │   ├── ParkedStreamNotFound
    │   ├── ProjectionNotFound
    │   ├── BatchNotFound
    │   ├── UploadNotFound
    │   └── SchemaVersionNotFound
    ├── Conflict                 right in itself, but not now
    │   ├── EventTypeExists
    │   ├── EventTypeInUse
    │   ├── NoFreeSlots
    │   ├── PartitionsTaken
    │   ├── ResetUnderWay
    │   ├── StaleToken
    │   ├── StaleSplit
    │   ├── CursorMoved
    │   ├── PositionMoved
    │   ├── ProjectionBehind
    │   ├── ProjectionGone
    │   ├── AlreadyStarted
    │   ├── GroupKindDiffers
    │   ├── InsideTransaction
    │   ├── PublishingRestricted
    │   ├── SnapshotOutdated
    │   ├── ClaimRefused
    │   ├── EpochExhausted
    │   ├── AlreadyPublished
    │   ├── ReplayDiffers
    │   ├── BatchOfAnotherQuery
    │   ├── BatchOfAnotherMode
    │   ├── BatchSuperseded
    │   ├── BatchUnfinished
    │   ├── BatchIncomplete
    │   ├── NonDeterministicReplay
    │   ├── RowsScattered
    │   ├── UploadTaken
    │   ├── ChunkDiffers
    │   └── OutsideTransaction
    ├── Forbidden                right, but not for whoever asks
    │   ├── Blocked
    │   └── StorageInUse
    ├── RequestTooSlow           a request took too long to arrive
    ├── TooManyProducers         a limit that is reached for now
    ├── TooManyUploads
    ├── ProducerUnsafe           this idempotent producer must not go on in this partition
    │   ├── ProducerFenced
    │   ├── SequenceGap
    │   ├── SequenceOverlap
    │   ├── SequenceTooOld
    │   ├── PayloadMismatch
    │   ├── ProducerStateExpired
    │   └── ServerStateRegressed
    ├── PublishCancelled
    ├── NotOffered               this hub has been told not to do it
    ├── CursorExpired            the events after it are no longer all there
    ├── EventsLost               what a query was to read can no longer be read
    │   └── FeedCreatedAgain     the feed that a processor was reading is another one now
    ├── LandedPageMissing        likewise: a page that had landed for it
    ├── ProcessorUnhealthy       streams make no progress for too long
    ├── SourceSilent             a processor's source has not answered for too long
    ├── StreamExhausted          an event was tried as often as it may be
    ├── FoldFailed               events do not go into a read model
    ├── KindUnexpected           there is no handler for it
    ├── CheckpointMoved          another processor has the same name
    ├── CommitUnknown            a processor's database has not said whether it has committed
    ├── TransactionEnded         a handler has committed, and is not to
    ├── NotReplayable            a source gives its events once
    ├── FileChanged              a file is not the one that was read before
    ├── Unavailable              try again later, unchanged
    │   ├── DatabaseUnavailable
    │   ├── DiskFull
    │   ├── OutboxBacklog
    │   ├── StreamsInTheWay
    │   ├── DeadlinePassed
    │   ├── RetriesExhausted
    │   ├── HubStopped
    │   ├── ChangesSwitchedOff
    │   ├── Unreachable          nothing was sent
    │   │   └── ProxyUnreachable
    │   └── ConnectionLost       the answer broke off
    ├── OutcomeUnknown           the request may or may not have been carried out
    ├── ServerError              another server's answer that is none of ours
    │   └── WrongAddress         neither a hub nor a feed is there
    ├── MalformedAnswer          an answer that breaks its protocol
    ├── RequirementMissing       something that does not come with Penstock has to be installed
    └── SchemaError              the database is not one that this version can work with
        ├── SchemaMissing
        ├── SchemaTooNew
        ├── TableUnsuitable
        ├── TableGone
        └── EncodingUnsuitable

An error carries its fields; the message is made from them. It survives pickling, as Spark hands errors on, and HTTP:
`penstock.wire.problem` turns it into problem+json and back by its code.
"""

from penstock.errors.admin import *  # noqa: F403
from penstock.errors.batches import *  # noqa: F403
from penstock.errors.groups import *  # noqa: F403
from penstock.errors.http import *  # noqa: F403
from penstock.errors.log import *  # noqa: F403
from penstock.errors.processing import *  # noqa: F403
from penstock.errors.producers import *  # noqa: F403
from penstock.errors.registry import *  # noqa: F403
from penstock.errors.root import BadParameter as BadParameter
from penstock.errors.root import Conflict as Conflict
from penstock.errors.root import Forbidden as Forbidden
from penstock.errors.root import Invalid as Invalid
from penstock.errors.root import NotFound as NotFound
from penstock.errors.root import OutcomeUnknown as OutcomeUnknown
from penstock.errors.root import PenstockError as PenstockError
from penstock.errors.root import RequirementMissing as RequirementMissing
from penstock.errors.root import TooLarge as TooLarge
from penstock.errors.root import Unavailable as Unavailable
from penstock.errors.storage import *  # noqa: F403
from penstock.errors.subscriptions import *  # noqa: F403

ALL: tuple[type[PenstockError], ...] = tuple(
    kind for kind in list(vars().values()) if isinstance(kind, type) and issubclass(kind, PenstockError)
)
"""Every error, by the files that they stand in."""
