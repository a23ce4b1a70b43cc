"""Protocol of the administration of subscriptions, including the plan of a reset."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from penstock.client.groups import check_position_resets
from penstock.client.http.exchanges import JsonExchange, ListPage, decode_response
from penstock.client.log.starting import start_now
from penstock.client.registry import EventTypeProtocol, PartitionOffsets
from penstock.client.subscriptions.model import (
    ParkedKey,
    ParkedKeyDetails,
    SubscribedPartition,
    Subscription,
    SubscriptionCursor,
    WireCursors,
    WireParked,
    WireParkedKeys,
    WireStats,
    cursors_of,
    encode_cursors,
    parked_details_of,
    parked_of,
    partitions_of,
    subscription_of,
)
from penstock.core.log.start import START_VALUES, Start, check_start, resolve_start
from penstock.errors import (
    BadCursor,
    BadParameter,
    MalformedAnswer,
    ParkedNotFound,
    SubscriptionNotFound,
    UnusablePosition,
)
from penstock.wire.arguments import check_items, check_names
from penstock.wire.groups import PositionReset, ResetPosition, check_reason
from penstock.wire.http import (
    Exchange,
    HttpRequest,
    HttpResponse,
    is_not_applied,
    is_transient,
    join_url,
)


class PartitionReset(NamedTuple):
    """A partition to reset, and the item that requests it."""

    item: int
    """Index of the item."""
    asked: PositionReset
    partition: PartitionOffsets


def check_resets(
    event_types: Sequence[str], items: Iterable[PositionReset] | None, to: Start | None, now: datetime
) -> list[PositionReset]:
    """Return the requested resets of a subscription to *event_types*; without *items* of all of them.

    A duration becomes the time that it means at *now*.

    Raises:
        BadParameter: The target of a reset is no place to start.
        TypeError: The target of a reset is missing or ambiguous.
        UnusablePosition: The subscription does not read an item's event type.
    """
    if items is None:
        goal = None if to is None else check_start(to, "to")
        items = [PositionReset(each, to=goal) for each in event_types]
    elif to is not None:
        raise TypeError("each item has its own `to`: leave it out beside items")
    found = check_position_resets(items)
    for number, each in enumerate(found):
        if (each.to is None) == (each.offset is None):
            raise TypeError(f"items[{number}]: give one of to ({START_VALUES}) and offset")
        if each.event_type not in event_types:
            reason = "the subscription does not read this event type"
            raise UnusablePosition(item=number, event_type=each.event_type, partition=each.partition, reason=reason)
        if each.offset is not None and each.partition is None:
            raise TypeError(f"items[{number}]: an offset goes with a partition")
    return [each if each.to is None else replace(each, to=resolve_start(each.to, now)) for each in found]


def assign_resets(
    resets: Sequence[PositionReset], partitions: Mapping[str, Sequence[PartitionOffsets]]
) -> list[PartitionReset]:
    """Return the partitions to reset, each at most once.

    Raises:
        UnusablePosition: A partition does not exist, or is reset twice.
    """
    found: dict[tuple[str, int], PartitionReset] = {}
    for item, reset in enumerate(resets):
        for goal in _list_resets(item, reset, partitions[reset.event_type]):
            place = (reset.event_type, goal.partition.partition)
            if place in found:
                raise _make_unusable_error(goal, f"items[{found[place].item}] moves it already")
            found[place] = goal
    return [found[place] for place in sorted(found)]


def plan_resets(
    goals: Iterable[PartitionReset],
    since: Mapping[tuple[str, datetime], Mapping[int, int]],
    cursors: Iterable[SubscriptionCursor],
) -> list[ResetPosition]:
    """Return the old and new position of each partition to reset.

    Args:
        goals: The partitions to reset.
        since: By event type and time, the first offset at or after that time by partition.
        cursors: The subscription's cursors; empty if it has not begun.

    Raises:
        UnusablePosition: An offset is not available.
    """
    stand = {(each.event_type, each.partition): each for each in cursors}
    found = []
    for goal in goals:
        name, ends = goal.asked.event_type, goal.partition
        offset = _choose_offset(goal, since)
        held = stand.get((name, ends.partition))
        came_from = held.offset if held is not None and held.epoch == ends.epoch else None
        gap = ends.head - offset
        found.append(ResetPosition(name, "", ends.partition, ends.epoch, came_from, offset, ends.head, gap))
    return found


def _list_resets(item: int, reset: PositionReset, partitions: Sequence[PartitionOffsets]) -> Iterator[PartitionReset]:
    wanted = [each for each in partitions if reset.partition in (None, each.partition)]
    if not wanted:
        reason = f"it has {len(partitions)}, numbered from 0"
        raise UnusablePosition(item=item, event_type=reset.event_type, partition=reset.partition, reason=reason)
    return (PartitionReset(item, reset, each) for each in wanted)


def _choose_offset(goal: PartitionReset, since: Mapping[tuple[str, datetime], Mapping[int, int]]) -> int:
    asked, ends = goal.asked, goal.partition
    if isinstance(asked.to, datetime):
        return max(ends.oldest, since[asked.event_type, asked.to][ends.partition])
    if asked.offset is None:
        return ends.oldest if asked.to == "earliest" else ends.head
    if not ends.oldest <= asked.offset <= ends.head:
        reason = (
            f"offset {asked.offset} is not from {ends.oldest} (the first event that is there) to {ends.head} (the end)"
        )
        raise _make_unusable_error(goal, reason)
    return asked.offset


def _make_unusable_error(goal: PartitionReset, reason: str) -> UnusablePosition:
    name, number = goal.asked.event_type, goal.partition.partition
    return UnusablePosition(item=goal.item, event_type=name, partition=number, reason=reason)


SUBSCRIPTIONS_MAX: Final = 1_000
"""Number of subscriptions in one request."""
RESET_TIMEOUT: Final = 30.0
"""Seconds that a hub may take to end the streams before a reset."""
NEW: Final = "new"
"""The token of the first page of a list."""
READ_FROM: Final = {"earliest": "begin", "latest": "end"}
"""Nakadi's `read_from` for our words."""
_ACCEPTED: Final = {"accept": "application/json"}
_JSON: Final = {"content-type": "application/json", **_ACCEPTED}
_SHOWN_ALONE: Final = ("id", "created_at", "updated_at", "status")
Shape = TypeVar("Shape")
Made = TypeVar("Made")
InitialCursors: TypeAlias = Iterable[SubscriptionCursor | Mapping[str, Any]]


def subscription_address(url: str, id: str, *path: str) -> str:
    """Return the address of *path* of the subscription *id*.

    Raises:
        SubscriptionNotFound: The id is not valid, and would lead to another path.
    """
    if id in ("", ".", ".."):
        raise SubscriptionNotFound(subscription=id)
    return join_url(url, "subscriptions", id, *path)


class SubscriptionProtocol:
    """Protocol of the administration of subscriptions of the hub at *url*."""

    def __init__(
        self, url: str, event_types: EventTypeProtocol, *, retry_timeout: float, clock: Callable[[], float]
    ) -> None:
        self._url = url
        self._event_types = event_types
        self._json = JsonExchange(retry_timeout, clock)

    def create(
        self,
        event_types: Iterable[str],
        start: Start | None,
        initial_cursors: InitialCursors,
        members: Mapping[str, Any],
    ) -> Exchange[tuple[Subscription, bool]]:
        """Create a subscription or find the existing one; return it and whether it was created."""
        given = {name: value for name, value in members.items() if value is not None}
        given["event_types"] = names = check_names("event_types", event_types)
        allowed = "a list of SubscriptionCursor, or of cursors in Nakadi's format"
        cursors = encode_cursors(
            check_items("initial_cursors", initial_cursors, (SubscriptionCursor, Mapping), allowed)
        )
        if cursors and start is not None:
            raise BadParameter(parameter="start", value=start, allowed="nothing beside initial_cursors")
        begins = None if start is None else start_now(check_start(start))
        if isinstance(begins, datetime):
            cursors = encode_cursors((yield from self._find_cursors_since(names, begins)))
        elif begins is not None:
            given["read_from"] = READ_FROM[begins]
        if cursors:
            given |= {"read_from": "cursors", "initial_cursors": cursors}
        url = join_url(self._url, "subscriptions")
        request = HttpRequest(method="POST", url=url, headers=_JSON, body=msgspec.json.encode(given))
        answer = yield from self._json.send(request, is_transient, HTTPStatus.OK, HTTPStatus.CREATED)
        return _convert(answer, dict[str, Any], subscription_of), answer.status == HTTPStatus.CREATED

    def all(
        self, owning_application: str | None, event_types: Iterable[str], reader: str | None, *, status: bool
    ) -> Exchange[list[Subscription]]:
        """Return all matching subscriptions, newest first. All pages are requested."""
        asked: list[tuple[str, object]] = [("event_type", each) for each in check_names("event_types", event_types)]
        given = {"owning_application": owning_application, "reader": reader, "show_status": "true" if status else None}
        asked += [(name, value) for name, value in given.items() if value is not None]
        found: list[Subscription] = []
        after = NEW
        while True:
            paging = [("limit", SUBSCRIPTIONS_MAX), ("token", after)]
            answer = yield from self._get(join_url(self._url, "subscriptions", query=[*asked, *paging]))
            items, has_next = _convert(
                answer, ListPage[dict[str, Any]], lambda page: (list(map(subscription_of, page.items)), page.has_next)
            )
            found += items
            if not has_next:
                return sorted(found, key=lambda each: each.created_at, reverse=True)
            after = items[-1].id

    def show(self, id: str) -> Exchange[Subscription]:
        """Return one subscription."""
        answer = yield from self._get(subscription_address(self._url, id))
        return _convert(answer, dict[str, Any], subscription_of)

    def update(self, id: str, changes: Mapping[str, Any]) -> Exchange[None]:
        """Replace members of a subscription; members that are None stay."""
        url = subscription_address(self._url, id)
        shown: dict[str, Any] = decode_response((yield from self._get(url)), dict[str, Any])
        stays = {name: value for name, value in shown.items() if name not in _SHOWN_ALONE}
        body = msgspec.json.encode(stays | {name: value for name, value in changes.items() if value is not None})
        yield from self._json.send(HttpRequest(method="PUT", url=url, headers=_JSON, body=body), is_transient, 204)

    def delete(self, id: str) -> Exchange[None]:
        """Delete a subscription."""
        yield from self._json.send(
            HttpRequest(method="DELETE", url=subscription_address(self._url, id)), is_not_applied, 204
        )

    def stats(self, id: str, *, lag: bool) -> Exchange[list[SubscribedPartition]]:
        """Return the stream and the lag of each partition."""
        url = join_url(subscription_address(self._url, id, "stats"), query=[("show_time_lag", str(lag).lower())])
        return _convert((yield from self._get(url)), WireStats, lambda shown: partitions_of(shown.items))

    def cursors(self, id: str) -> Exchange[list[SubscriptionCursor]]:
        """Return the committed cursor of each partition."""
        answer = yield from self._get(subscription_address(self._url, id, "cursors"))
        return _convert(answer, WireCursors, cursors_of)

    def reset(
        self,
        id: str,
        items: Iterable[PositionReset] | None,
        *,
        to: Start | None,
        reason: str | None,
        dry_run: bool,
    ) -> Exchange[list[ResetPosition]]:
        """Move cursors, all or none, once their streams have ended."""
        check_reason(reason)  # Also for a dry run, in which the hub does not see it.
        planned = yield from self._plan_resets(id, items, to)
        if dry_run or not planned:
            return planned
        cursors = encode_cursors(
            SubscriptionCursor(each.event_type, each.partition, each.epoch, each.offset) for each in planned
        )
        body = msgspec.json.encode({"items": cursors} | ({} if reason is None else {"reason": reason}))
        url = subscription_address(self._url, id, "cursors")
        request = HttpRequest(method="PATCH", url=url, headers=_JSON, body=body, wait_seconds=RESET_TIMEOUT)
        yield from self._json.send(request, is_not_applied, 204)
        return planned

    def parked(self, id: str) -> Exchange[list[ParkedKey]]:
        """Return the parked keys."""
        answer = yield from self._get(subscription_address(self._url, id, "parked"))
        return _convert(answer, WireParkedKeys, lambda shown: list(map(parked_of, shown.items)))

    def parked_key(self, id: str, parked_id: str, limit: int) -> Exchange[ParkedKeyDetails]:
        """Return one parked key with up to *limit* of its events."""
        url = join_url(self._parked_address(id, parked_id), query=[("limit", limit)])
        return _convert((yield from self._get(url)), WireParked, parked_details_of)

    def retry_parked(self, id: str, parked_id: str | None) -> Exchange[int]:
        """Send a parked key, or all, again; return the number of keys."""
        if parked_id is not None:
            url = self._parked_address(id, parked_id, "retry")
            yield from self._json.send(HttpRequest(method="POST", url=url, headers=_ACCEPTED), is_not_applied, 204)
            return 1
        url = subscription_address(self._url, id, "parked", "retry")
        answer = yield from self._json.send(HttpRequest(method="POST", url=url, headers=_ACCEPTED), is_not_applied, 200)
        return _convert(answer, _Retried, lambda shown: shown.retried)

    def skip_parked(self, id: str, parked_id: str, reason: str) -> Exchange[None]:
        """Drop the events of a parked key."""
        body = msgspec.json.encode({"reason": reason})
        url = self._parked_address(id, parked_id, "skip")
        yield from self._json.send(HttpRequest(method="POST", url=url, headers=_JSON, body=body), is_not_applied, 204)

    def _plan_resets(
        self, id: str, items: Iterable[PositionReset] | None, to: Start | None
    ) -> Exchange[list[ResetPosition]]:
        shown = yield from self.show(id)
        resets = check_resets(shown.event_types, items, to, datetime.now(UTC))
        partitions = {}
        for name in sorted({each.event_type for each in resets}):
            partitions[name] = yield from self._event_types.partitions(name)
        wanted = assign_resets(resets, partitions)
        since = {}
        for name, time in sorted({(each.event_type, each.to) for each in resets if isinstance(each.to, datetime)}):
            found = yield from self._event_types.find_offsets_since(name, time)
            since[name, time] = {each.partition: each.offset for each in found}
        return plan_resets(wanted, since, (yield from self.cursors(id)))

    def _find_cursors_since(self, event_types: Sequence[str], time: datetime) -> Exchange[list[SubscriptionCursor]]:
        """Return the cursor of each partition at the first event received at *time* or later."""
        cursors = []
        for name in event_types:
            found = yield from self._event_types.find_offsets_since(name, time)
            cursors += [SubscriptionCursor(name, each.partition, each.epoch, each.offset) for each in found]
        return cursors

    def _parked_address(self, id: str, parked_id: Any, *path: str) -> str:
        if not (isinstance(parked_id, str) and parked_id.isascii() and parked_id.isdigit()):
            raise ParkedNotFound(subscription=id, parked=parked_id)
        return subscription_address(self._url, id, "parked", parked_id, *path)

    def _get(self, url: str) -> Exchange[HttpResponse]:
        return (yield from self._json.send(HttpRequest(method="GET", url=url, headers=_ACCEPTED), is_transient, 200))


def _convert(answer: HttpResponse, shape: type[Shape], make: Callable[[Shape], Made]) -> Made:
    """Return the result of *make* for the body of a response.

    Raises:
        MalformedAnswer: The body is malformed.
    """
    shown = decode_response(answer, shape)
    try:
        return make(shown)
    except (ValueError, msgspec.ValidationError, BadCursor) as error:
        raise MalformedAnswer(url=answer.url, reason=f"{answer.body[:200]!r} ({error})") from error


class _Retried(msgspec.Struct):
    retried: int
