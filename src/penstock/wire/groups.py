"""The HTTP contract of consumer groups: their representation, and requests that commit and reset positions."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.core.group_names import NAME_CHARS_MAX, is_group_name
from penstock.core.groups.groups import KINDS, GroupReset, Kind, PositionCommit, ResetTarget
from penstock.core.groups.parking import (
    DETAIL_CHARS_MAX,
    STREAM_CHARS_MAX,
    TAG_CHARS_MAX,
    ParkedChanges,
    ParkedStream,
    StreamPlace,
)
from penstock.core.log.start import START_FORM, Start, format_start, parse_start
from penstock.errors import BadParameter
from penstock.wire.arguments import convert_body
from penstock.wire.query import Query, make_printable

GROUPS_MAX: Final = 1_000
"""Maximum number of groups, or resets, in one response."""
REASON_CHARS_MAX: Final = 1_000
_NAME_ALLOWED: Final = f"1 to {NAME_CHARS_MAX} printable characters of ASCII"
_GOALS: Final = f"one of to ({START_FORM}) and offset"
_COMMIT_FORM: Final = (
    "items (each with event_type, partition, offset, slice, epoch, expected), "
    "kind (processor, spark, cursorset or reported), kept_at, parked, unparked, tried (streams of a processor)"
)
_RESET_FORM: Final = (
    f"items (each with event_type, partition, slice, and to or offset), to ({START_FORM}), reason, "
    "dry_run (true or false)"
)
_STORABLE: Final = "^[^\\x00]*$"
"""PostgreSQL cannot store the character NUL."""
Number: TypeAlias = Annotated[int, Meta(ge=0, le=10**18)]
LEASE_SECONDS_MAX: Final = 3_600.0
Tranches: TypeAlias = Annotated[list[Annotated[str, Meta(max_length=300)]], Meta(max_length=10_000)]


class ConsumerGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named set of positions, and its lag."""

    name: str
    kind: str
    """The kind of consumer: cursorset, subscription, processor, spark or reported."""
    event_types: list[str]
    """The event types that it reads."""
    gap: int | None
    """Number of uncommitted events; None for a subscription that has not begun."""
    lag_seconds: float | None
    """Age of the oldest uncommitted event in seconds; 0 without any."""
    offset_sum: int | None = None
    """Sum of its offsets, of each partition the slowest slice's: what it grows by is what the group has handled."""
    owning_application: str | None = None
    """The owner of a subscription."""
    consumer_group: str | None = None
    """The name that the owner gave to a subscription."""
    kept_at: str | None = None
    """Where a group of the kind `reported` keeps its positions; None: at the hub."""


class GroupPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a consumer group in a partition or a slice of it."""

    event_type: str
    slice: str
    """Empty for a whole partition; n/partition of a cursor set."""
    partition: int
    epoch: int
    """The epoch of the feed when it was stored: offsets of different epochs are unrelated."""
    offset: int
    """The next offset wanted."""
    head: int | None
    """The offset of the partition's next event; None if the partition does not exist any more."""
    gap: int | None
    """Number of available uncommitted events."""
    lag_seconds: float
    """Age of the oldest uncommitted event in seconds; 0 without any."""
    lost: int | None
    """Number of uncommitted events that were removed; None if unknown."""
    reason: str | None
    """Why the group cannot continue from there without an intervention; None if it can."""
    updated_at: str


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group whose processors share partitions by leases."""

    member: str
    tranches: list[str]
    """The partitions that it has, such as `order.placed/3`."""
    leaving: bool
    """Whether it ends, and gets nothing more."""
    expires_at: str
    """When its lease ends unless it renews it."""


class HeldTranches(msgspec.Struct, frozen=True):
    """The partitions that a member of a group has."""

    tranches: list[str]
    """To be read."""
    leaving: list[str]
    """To be released as soon as what is under way is done: another member waits for them."""
    coming: list[str]
    """To be had as soon as another member releases them."""


class ConsumerGroupDetails(ConsumerGroup, frozen=True, kw_only=True):
    """A consumer group with all its positions."""

    positions: list[GroupPosition]
    members: list[GroupMember] = []
    """The members of a processor that share its partitions; empty if none do."""


class CommittedPosition(msgspec.Struct, frozen=True):
    """A stored position."""

    event_type: str
    slice: str
    partition: int
    epoch: int
    offset: int


class ResetPosition(msgspec.Struct, frozen=True):
    """A position that was reset, or would be."""

    event_type: str
    slice: str
    partition: int
    epoch: int
    came_from: int | None
    """The previous offset; None if there was none in this epoch."""
    offset: int
    head: int
    gap: int


class GroupIntervention(msgspec.Struct, frozen=True):
    """A reset of a consumer group by an operator."""

    id: int
    at: str
    kind: str
    """The kind of intervention: `reset`."""
    event_type: str
    slice: str
    partition: int
    epoch: int
    came_from: int | None
    went_to: int
    reason: str | None


class GroupLagSample(msgspec.Struct, frozen=True):
    """How far a consumer group was behind at one time."""

    at: str
    gap: int
    """Number of uncommitted events."""
    lag_seconds: float
    """Age of the oldest uncommitted event in seconds; 0 without any."""


class NewPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A position to commit."""

    event_type: str
    partition: int
    offset: int
    """The next offset wanted."""
    slice: str = ""
    epoch: int | None = None
    """The epoch of the feed as it was read; another epoch is refused."""
    expected: int | UnsetType | None = UNSET
    """The offset that must be stored now; None requires that none is. By default any is replaced."""


class ParkedStreamPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A stream in a partition."""

    event_type: str
    partition: Number
    stream: Annotated[str, Meta(min_length=1, max_length=STREAM_CHARS_MAX, pattern=_STORABLE)]


class NewParkedStream(ParkedStreamPlace, frozen=True, kw_only=True):
    """A stream as a processor has parked it in a partition."""

    index: Number
    """Index of the event that could not be handled: in a feed its offset."""
    next: Number
    """Index behind the last event that has come so far."""
    events: Number
    """Number of events that wait."""
    attempts: Number
    tag: Annotated[str, Meta(max_length=TAG_CHARS_MAX, pattern=_STORABLE)]
    detail: Annotated[str, Meta(max_length=DETAIL_CHARS_MAX, pattern=_STORABLE)]
    since: Annotated[str, Meta(pattern=r"^[0-9]{1,9}:[0-9]{1,18}\Z")]
    """EPOCH:OFFSET, from which the partition is read again to find the events."""


class GroupParkedStream(msgspec.Struct, frozen=True, kw_only=True):
    """A parked stream of a group's processor."""

    id: str
    event_type: str
    partition: int
    stream: str | None
    """None: the caller may not read the event type, of whose keys it may consist."""
    index: int
    next: int
    events: int
    attempts: int
    tag: str
    detail: str | None
    """None: likewise."""
    since: str
    parked_at: str
    request: str | None
    """`retry` or `skip`, until the processor has taken that up."""


class LeaseRenewal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to extend the lease of a member."""

    lease_seconds: Annotated[float, Meta(ge=0.1, le=LEASE_SECONDS_MAX)]
    tranches: Tranches = []
    leaving: bool = False


class _Release(msgspec.Struct, forbid_unknown_fields=True):
    tranches: Tranches


class _Commits(msgspec.Struct, forbid_unknown_fields=True):
    items: list[NewPosition]
    kind: Literal["processor", "spark", "cursorset", "reported"] | None = None
    kept_at: str | None = None
    parked: list[NewParkedStream] = []
    unparked: list[ParkedStreamPlace] = []
    tried: list[ParkedStreamPlace] = []


@dataclass(frozen=True, slots=True)
class PositionReset:
    """A request to reset positions to one of *to* and *offset*."""

    event_type: str
    partition: int | None = None
    """The partition; None resets all."""
    slice: str | None = None
    """The slice; None resets all slices in which the group has a position."""
    to: Start | None = None
    """`earliest`, `latest`, a time (the first event received then or later), or a duration ago."""
    offset: int | None = None


class _WireReset(msgspec.Struct, forbid_unknown_fields=True):
    event_type: str
    partition: int | None = None
    slice: str | None = None
    to: str | None = None
    offset: int | None = None


class _Resets(msgspec.Struct, forbid_unknown_fields=True):
    items: list[_WireReset] | None = None
    to: str | None = None
    reason: str | None = None
    dry_run: bool = False


class CommitRequest(NamedTuple):
    """A request to commit positions."""

    kind: str | None
    commits: Sequence[PositionCommit]
    parked: ParkedChanges
    kept_at: str | None


class ResetRequest(NamedTuple):
    """A request to reset positions."""

    resets: Sequence[GroupReset]
    reason: str | None
    dry_run: bool


def parse_commit(given: Any) -> CommitRequest:
    """Parse the request to commit positions.

    Raises:
        BadParameter: A member is unknown, missing or malformed.
    """
    body = convert_body(given, _Commits, _COMMIT_FORM)
    parked = ParkedChanges(
        [ParkedStream(each.event_type, each.partition, each.stream, each.index, each.next, each.events, each.attempts,
                      each.tag, each.detail, each.since) for each in body.parked],
        list(map(_parse_place, body.unparked)),
        list(map(_parse_place, body.tried)),
    )  # fmt: skip
    if not body.items and not parked:
        raise BadParameter(parameter="items", value="[]", allowed="at least one position")
    return CommitRequest(body.kind, [_parse_commit(each) for each in body.items], parked, body.kept_at)


def _parse_place(given: ParkedStreamPlace) -> StreamPlace:
    return StreamPlace(given.event_type, given.partition, given.stream)


def parse_renewal(given: Any) -> LeaseRenewal:
    """Parse the request to extend the lease of a member.

    Raises:
        BadParameter: A member is unknown, missing or malformed.
    """
    return convert_body(given, LeaseRenewal, f"tranches, lease_seconds (0.1 to {LEASE_SECONDS_MAX:g}), leaving")


def parse_release(given: Any) -> Sequence[str]:
    """Parse the request to release partitions.

    Raises:
        BadParameter: A member is unknown, missing or malformed.
    """
    return convert_body(given, _Release, "tranches").tranches


def parse_reset(given: Any) -> ResetRequest:
    """Parse the request to reset positions.

    Raises:
        BadParameter: A member is unknown, missing or malformed.
    """
    body = convert_body(given, _Resets, _RESET_FORM)
    check_reason(body.reason)
    if body.items is None:
        return ResetRequest([GroupReset(_parse_goal(body.to, None, ""))], body.reason, body.dry_run)
    if not body.items or body.to is not None:
        allowed = "at least one item and no to beside them, or no items at all"
        raise BadParameter(parameter="items", value=None, allowed=allowed)
    return ResetRequest([_reset(each, at) for at, each in enumerate(body.items)], body.reason, body.dry_run)


def encode_reset(reset: PositionReset) -> dict[str, Any]:
    """Return *reset* as an item of a request.

    >>> encode_reset(PositionReset("order.placed", 3, to="earliest"))
    {'event_type': 'order.placed', 'partition': 3, 'to': 'earliest'}
    """
    given = asdict(reset) | {"to": None if reset.to is None else format_start(reset.to)}
    return {member: value for member, value in given.items() if value is not None}


def check_reason(reason: str | None) -> None:
    """Check the reason of an intervention.

    Raises:
        BadParameter: It is too long, or contains characters that a database cannot store.
    """
    if reason is not None and not (len(reason) <= REASON_CHARS_MAX and reason.isprintable()):
        allowed = f"up to {REASON_CHARS_MAX} printable characters"
        raise BadParameter(parameter="reason", value=make_printable(reason), allowed=allowed)


def parse_kind(query: Query) -> Kind | None:
    """Return the kind of the listed groups; None for any.

    Raises:
        BadParameter: The kind is unknown.
    """
    text = query.find_text("kind")
    for kind in KINDS:
        if text in (None, kind):
            return None if text is None else kind
    raise BadParameter(parameter="kind", value=make_printable(text or ""), allowed=f"one of {', '.join(KINDS)}")


def parse_after(query: Query) -> str:
    """Return the group after which a list begins; empty for the first page.

    Raises:
        BadParameter: The value is not a valid group name.
    """
    text = query.find_text("after")
    if text is None or is_group_name(text):
        return text or ""
    raise BadParameter(parameter="after", value=make_printable(text), allowed=_NAME_ALLOWED)


def _parse_commit(given: NewPosition) -> PositionCommit:
    expected = None if given.expected is UNSET else given.expected
    return PositionCommit(
        given.event_type,
        given.partition,
        given.offset,
        given.slice,
        given.epoch,
        is_conditional=given.expected is not UNSET,
        expected=expected,
    )


def _reset(given: _WireReset, at: int) -> GroupReset:
    goal = _parse_goal(given.to, given.offset, f"items[{at}]")
    if goal.offset is not None and given.partition is None:
        allowed = "a partition, where an offset is given"
        raise BadParameter(parameter=f"items[{at}].partition", value=None, allowed=allowed)
    return GroupReset(goal, given.event_type, given.partition, given.slice)


def _parse_goal(to: str | None, offset: int | None, within: str) -> ResetTarget:
    if (to is None) == (offset is None):
        value = None if to is None else f"{to[:80]}, {offset}"
        allowed = _GOALS if within else f"{START_FORM}; or items"
        raise BadParameter(parameter=within or "to", value=value, allowed=allowed)
    return ResetTarget(None if to is None else parse_start(to, f"{within}.to" if within else "to"), offset)
