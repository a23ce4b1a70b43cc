"""Every error that Penstock raises.

    PenstockError
    ├── Invalid              the input is wrong
    │   ├── BadParameter
    │   ├── BadCursor
    │   ├── BadPartitionCount
    │   ├── InvalidEvent
    │   │   └── MalformedEvent
    │   ├── InvalidEventType
    │   ├── InvalidSubscription
    │   ├── IncompatibleSchema
    │   ├── StreamNotFound
    │   ├── CommitRefused
    │   ├── InvalidSetting
    │   ├── MalformedRequest
    │   ├── UnsupportedFormat
    │   ├── UnusablePosition
    │   ├── InvalidRecord
    │   ├── BadOutcome
    │   └── EventUnusable
    ├── TooLarge
    │   ├── EventTooLarge
    │   └── RequestTooLarge
    ├── NotFound
    │   ├── EventTypeNotFound
    │   ├── PartitionNotFound
    │   ├── GroupNotFound
    │   ├── ProducerNotFound
    │   ├── SubscriptionNotFound
    │   ├── ParkedNotFound
    │   ├── ProjectionNotFound
    │   ├── BatchNotFound
    │   ├── SchemaVersionNotFound
    │   ├── ConsoleNotFound
    │   └── RecordNotFound
    ├── Conflict             the present state does not allow it
    │   ├── EventTypeExists
    │   ├── EventTypeInUse
    │   ├── StaleToken
    │   ├── StaleSplit
    │   ├── PositionMoved
    │   ├── ProjectionBehind
    │   ├── GroupKindDiffers
    │   ├── PublishingRestricted
    │   ├── SnapshotOutdated
    │   ├── ClaimRefused
    │   ├── EpochExhausted
    │   ├── ReplayDiffers
    │   ├── BatchRefused
    │   ├── BatchFenced
    │   ├── SubscriptionBusy
    │   ├── WrongTransaction
    │   ├── AlreadyUsed
    │   └── TokenSuperseded
    ├── Unauthenticated      the credential is missing or not valid
    ├── Forbidden            the caller may not do it
    │   ├── AccessDenied
    │   └── Blocked
    ├── ProducerUnsafe       this idempotent producer cannot continue
    │   ├── ProducerFenced
    │   ├── OutOfSequence
    │   ├── PayloadMismatch
    │   ├── ProducerStateExpired
    │   └── ServerStateRegressed
    ├── PublishCancelled
    ├── NotOffered           a feature setting forbids it
    ├── CursorExpired        events after the cursor are gone
    ├── EventsLost           events of a query or processor are gone
    ├── ProcessorUnhealthy   a health rule of a processor is broken
    ├── HandlerFailed        a handler or fold has failed
    ├── CheckpointMoved      another process moved the checkpoint
    ├── Unavailable          repeat the request later
    │   ├── DatabaseUnavailable
    │   ├── DiskFull
    │   ├── ColdTierUnavailable
    │   ├── RetriesExhausted
    │   ├── Unreachable      nothing was sent
    │   ├── ConnectionLost   the answer is incomplete
    │   ├── HubUnavailable   the hub cannot do it now
    │   └── TooManyRequests  the caller has reached a limit
    ├── OutcomeUnknown       the request may have been carried out
    ├── ServerError          the answer of another server
    │   └── WrongAddress     neither a hub nor a feed
    ├── MalformedAnswer      the answer breaks its protocol
    ├── RequirementMissing   something must be installed
    ├── DatabaseUnsuitable   the database needs an operator
    ├── ColdTierUnsuitable   the database and the cold tier do not belong together
    ├── ColdFileDamaged      a file of the cold tier cannot be read
    ├── LimitReached         a maximum number is reached
    └── TransactionFailed    a transaction of a processor

The message of an error is made from its fields. Errors can be pickled, as Spark does, and sent over HTTP:
`penstock.wire.problem` converts an error to problem+json and back, by its code.
"""

from penstock.errors.access import *  # noqa: F403
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
"""All error classes, by module."""
