"""The contract of consumer groups over HTTP: how they are shown, and how positions are committed and reset."""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from penstock.core.groups import KINDS, NAME_CHARS_MAX, GroupReset, Kind, PositionCommit, ResetTarget, is_group_name
from penstock.errors import BadParameter
from penstock.wire.log.nakadi import parse_time
from penstock.wire.query import Query, shown

GROUPS_MAX: Final = 1_000
"""How many groups, or interventions, one answer lists at most."""
REASON_CHARS_MAX: Final = 1_000
_NAME_ALLOWED: Final = f"1 to {NAME_CHARS_MAX} printable characters of ASCII"
_GOALS: Final = "one of to (begin or end), at (a time) and offset"
_COMMIT_FORM: Final = (
    "items (each with event_type, partition, offset, slice, epoch, expected), kind (processor, spark or cursorset)"
)
_RESET_FORM: Final = (
    "items (each with event_type, partition, slice, and to, at or offset), to (begin or end), at (a time), reason, "
    "dry_run (true or false)"
)
Given = TypeVar("Given", bound=msgspec.Struct)


class ConsumerGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A name under which somebody's positions are kept, and how far behind they are."""

    name: str
    kind: str
    """What sort of consumer it is: cursorset, subscription, processor or spark."""
    event_types: list[str]
    """Those that it reads."""
    gap: int | None
    """How many events it has not committed yet; None: it is a subscription that has not begun."""
    lag_seconds: float | None
    """The age of the oldest of them, 0 when there is none."""
    owning_application: str | None = None
    """Of a subscription."""
    consumer_group: str | None = None
    """Of a subscription: what its owner calls it."""


class GroupPosition(msgspec.Struct, frozen=True, kw_only=True):
    """How far a consumer group has come in a partition, or in a slice of it."""

    event_type: str
    slice: str
    """Empty, where the partition is not cut; n/partition of a cursor set."""
    partition: int
    epoch: int
    """Of the feed when it was stored: offsets of different epochs have nothing to do with each other."""
    offset: int
    """The one that is wanted next."""
    head: int | None
    """Where the partition ends: the offset that the next event will have. None: it is gone."""
    gap: int | None
    """How many events are there that are not committed."""
    lag_seconds: float
    """The age of the oldest of them, 0 when there is none."""
    lost: int | None
    """How many events are gone that were not committed; None: that cannot be told."""
    reason: str | None
    """Why it cannot go on from there before somebody has decided about that; None: it can."""
    updated_at: str


class ConsumerGroupDetails(ConsumerGroup, frozen=True, kw_only=True):
    """A consumer group with all its positions."""

    positions: list[GroupPosition]


class CommittedPosition(msgspec.Struct, frozen=True):
    """A position as it is stored now."""

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
    """The offset that was wanted next before; None: there was none of this epoch."""
    offset: int
    head: int
    gap: int


class GroupIntervention(msgspec.Struct, frozen=True):
    """Something that was done to a consumer group over its head."""

    id: int
    at: str
    kind: str
    """What was done: `reset`."""
    event_type: str
    slice: str
    partition: int
    epoch: int
    came_from: int | None
    went_to: int
    reason: str | None


class NewPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A position that is to be committed."""

    event_type: str
    partition: int
    offset: int
    """The one that is wanted next."""
    slice: str = ""
    epoch: int | None = None
    """Of the feed, as it was read: refused where it is another one now."""
    expected: int | UnsetType | None = UNSET
    """Only where this offset stands there; None: only where nothing does. Unless it is given, whatever stands there."""


class _Commits(msgspec.Struct, forbid_unknown_fields=True):
    items: list[NewPosition]
    kind: Literal["processor", "spark", "cursorset"] | None = None


class PositionReset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Positions that are to be reset, and where to: *to*, *offset* or *at*."""

    event_type: str
    partition: int | None = None
    """None: all of them."""
    slice: str | None = None
    """None: all those in which the group has a position."""
    to: Literal["begin", "end"] | None = None
    offset: int | None = None
    at: str | None = None
    """The first event that was received at this time or later; as RFC 3339 writes it."""


class _Resets(msgspec.Struct, forbid_unknown_fields=True):
    items: list[PositionReset] | None = None
    to: Literal["begin", "end"] | None = None
    at: str | None = None
    reason: str | None = None
    dry_run: bool = False


class Committing(NamedTuple):
    """What the body of a commit asks for."""

    kind: str | None
    commits: Sequence[PositionCommit]


class Resetting(NamedTuple):
    """What the body of a reset asks for."""

    resets: Sequence[GroupReset]
    reason: str | None
    dry_run: bool


def parse_commit(given: Any) -> Committing:
    """Return what a commit asks for.

    Raises:
        BadParameter: a member is none that there is, missing, or malformed.
    """
    body = _read(given, _Commits, _COMMIT_FORM)
    if not body.items:
        raise BadParameter(parameter="items", value="[]", allowed="at least one position")
    return Committing(body.kind, [_commit(each) for each in body.items])


def parse_reset(given: Any) -> Resetting:
    """Return what a reset asks for.

    Raises:
        BadParameter: a member is none that there is, missing, or malformed.
    """
    body = _read(given, _Resets, _RESET_FORM)
    check_reason(body.reason)
    if body.items is None:
        return Resetting([GroupReset(_goal(body.to, None, body.at, ""))], body.reason, body.dry_run)
    if not body.items or body.to is not None or body.at is not None:
        allowed = "at least one item and neither to nor at beside them, or no items at all"
        raise BadParameter(parameter="items", value=None, allowed=allowed)
    return Resetting([_reset(each, at) for at, each in enumerate(body.items)], body.reason, body.dry_run)


def check_reason(reason: str | None) -> None:
    """Return if that can be why somebody intervened.

    Raises:
        BadParameter: it is too long, or no text that both databases can keep.
    """
    if reason is not None and not (len(reason) <= REASON_CHARS_MAX and reason.isprintable()):
        allowed = f"up to {REASON_CHARS_MAX} printable characters"
        raise BadParameter(parameter="reason", value=shown(reason), allowed=allowed)


def parse_kind(query: Query) -> Kind | None:
    """Return of which kind the groups are that a list is of; None: of any.

    Raises:
        BadParameter: there is no such kind.
    """
    text = query.text("kind")
    for kind in KINDS:
        if text in (None, kind):
            return None if text is None else kind
    raise BadParameter(parameter="kind", value=shown(text or ""), allowed=f"one of {', '.join(KINDS)}")


def parse_after(query: Query) -> str:
    """Return the group after which a list begins; nothing where it begins with the first.

    Raises:
        BadParameter: no group can be called so.
    """
    text = query.text("after")
    if text is None or is_group_name(text):
        return text or ""
    raise BadParameter(parameter="after", value=shown(text), allowed=_NAME_ALLOWED)


def _read(given: Any, type: type[Given], allowed: str) -> Given:
    try:
        return msgspec.convert(given, type)
    except msgspec.ValidationError as error:
        raise BadParameter(f"the body: {error}; allowed: {allowed}", parameter="body", allowed=allowed) from None


def _commit(given: NewPosition) -> PositionCommit:
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


def _reset(given: PositionReset, at: int) -> GroupReset:
    goal = _goal(given.to, given.offset, given.at, f"items[{at}]")
    if goal.offset is not None and given.partition is None:
        allowed = "a partition, where an offset is given"
        raise BadParameter(parameter=f"items[{at}].partition", value=None, allowed=allowed)
    return GroupReset(goal, given.event_type, given.partition, given.slice)


def _goal(to: Literal["begin", "end"] | None, offset: int | None, at: str | None, within: str) -> ResetTarget:
    given = [each for each in (to, offset, at) if each is not None]
    if len(given) != 1:
        value = ", ".join(map(str, given))[:80] or None
        raise BadParameter(parameter=within or "to", value=value, allowed=_GOALS if within else "to or at, or items")
    time = None if at is None else parse_time(at, f"{within}.at" if within else "at")
    return ResetTarget(to, offset, time)
