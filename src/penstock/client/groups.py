"""Protocol of a hub's consumer groups."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from penstock.client.http.exchanges import Item, JsonExchange, ListPage, decode_response
from penstock.core.log.start import Start, check_start, format_start
from penstock.errors import GroupNotFound
from penstock.wire.arguments import check_count, check_items
from penstock.wire.groups import (
    GROUPS_MAX,
    CommittedPosition,
    ConsumerGroup,
    ConsumerGroupDetails,
    GroupIntervention,
    GroupParkedStream,
    HeldTranches,
    NewParkedStream,
    NewPosition,
    ParkedStreamPlace,
    PositionReset,
    ResetPosition,
    encode_reset,
)
from penstock.wire.http import Exchange, HttpRequest, is_not_applied, is_transient, join_url

_JSON: Final = {"content-type": "application/json", "accept": "application/json"}
_ACCEPTED: Final = {"accept": "application/json"}


def check_position_resets(items: Iterable[PositionReset]) -> list[PositionReset]:
    """Return *items* as a list.

    Raises:
        BadParameter: One of them is no PositionReset, or its *to* is no place to start.
    """
    found = check_items("items", items, PositionReset, "a list of PositionReset")
    for number, each in enumerate(found):
        if each.to is not None:
            check_start(each.to, f"items[{number}].to")
    return found


def group_address(url: str, name: str, *path: str) -> str:
    """Return the address of *path* of the consumer group *name*.

    Raises:
        GroupNotFound: The name is not valid, and would lead to another path.
    """
    if name in ("", ".", ".."):
        raise GroupNotFound(group=name)
    return join_url(url, "groups", name, *path)


class ConsumerGroups:
    """Protocol of a hub's consumer groups."""

    def __init__(self, url: str, *, retry_timeout: float, clock: Callable[[], float]) -> None:
        self._url = url
        self._json = JsonExchange(retry_timeout, clock)

    def all(self, event_type: str | None, kind: str | None) -> Exchange[list[ConsumerGroup]]:
        """Return the groups of an event type and a kind; None means any. All pages are requested."""
        asked = {"event_type": event_type, "kind": kind, "limit": GROUPS_MAX}
        found: list[ConsumerGroup] = []
        while True:
            page = yield from self._page(join_url(self._url, "groups", query=_query(asked)), ConsumerGroup)
            found += page.items
            if not page.has_next:
                return found
            asked["after"] = page.items[-1].name

    def show(self, name: str) -> Exchange[ConsumerGroupDetails]:
        """Return one group with all its positions."""
        request = HttpRequest(method="GET", url=group_address(self._url, name), headers=_ACCEPTED)
        answer = yield from self._json.send(request, is_transient, 200)
        found: ConsumerGroupDetails = decode_response(answer, ConsumerGroupDetails)
        return found

    def commit(
        self,
        name: str,
        positions: Iterable[NewPosition],
        kind: str | None,
        *,
        parked: Iterable[NewParkedStream] = (),
        unparked: Iterable[ParkedStreamPlace] = (),
        tried: Iterable[ParkedStreamPlace] = (),
        kept_at: str | None = None,
    ) -> Exchange[list[CommittedPosition]]:
        """Store positions and parked streams, all or nothing. Positions with `expected` are not sent twice."""
        items = check_items("positions", positions, NewPosition, "a list of NewPosition")
        changes = {
            "parked": check_items("parked", parked, NewParkedStream, "a list of NewParkedStream"),
            "unparked": check_items("unparked", unparked, ParkedStreamPlace, "a list of ParkedStreamPlace"),
            "tried": check_items("tried", tried, ParkedStreamPlace, "a list of ParkedStreamPlace"),
        }
        blindly = all(each.expected is msgspec.UNSET for each in items) and not any(changes.values())
        body: dict[str, Any] = {"items": items} | ({} if kind is None else {"kind": kind})
        body |= {} if kept_at is None else {"kept_at": kept_at}
        body |= {member: given for member, given in changes.items() if given}
        request = self._make_positions_request("POST", name, body)
        answer = yield from self._json.send(request, is_transient if blindly else is_not_applied, 200)
        found: list[CommittedPosition] = decode_response(answer, _Committed).items
        return found

    def reset(
        self,
        name: str,
        items: Iterable[PositionReset] | None,
        *,
        to: Start | None,
        reason: str | None,
        dry_run: bool,
    ) -> Exchange[list[ResetPosition]]:
        """Move positions, all or none."""
        body = {
            "items": None if items is None else [encode_reset(each) for each in check_position_resets(items)],
            "to": None if to is None else format_start(check_start(to, "to")),
            "reason": reason,
        }
        given = {member: value for member, value in body.items() if value is not None}
        request = self._make_positions_request("PATCH", name, given | {"dry_run": dry_run})
        answer = yield from self._json.send(request, is_transient if dry_run else is_not_applied, 200)
        found: list[ResetPosition] = decode_response(answer, _Reset).items
        return found

    def history(self, name: str, limit: int | None) -> Exchange[list[GroupIntervention]]:
        """Return up to *limit* resets of a group, newest first; None returns all."""
        if limit is not None:
            check_count("limit", limit, 0)
        asked: dict[str, Any] = {}
        found: list[GroupIntervention] = []
        while limit is None or len(found) < limit:
            asked["limit"] = GROUPS_MAX if limit is None else min(GROUPS_MAX, limit - len(found))
            url = join_url(group_address(self._url, name, "history"), query=_query(asked))
            page = yield from self._page(url, GroupIntervention)
            found += page.items
            if not page.has_next:
                break
            asked["after"] = page.items[-1].id
        return found

    def parked(self, name: str, *, requested: bool) -> Exchange[list[GroupParkedStream]]:
        """Return the parked streams of a group, oldest first; if *requested*, only those with a request."""
        asked: dict[str, Any] = {"limit": GROUPS_MAX, "requested": "true" if requested else None}
        found: list[GroupParkedStream] = []
        while True:
            url = join_url(group_address(self._url, name, "parked"), query=_query(asked))
            page = yield from self._page(url, GroupParkedStream)
            found += page.items
            if not page.has_next:
                return found
            asked["after"] = page.items[-1].id

    def retry_parked(self, name: str, parked: str | None) -> Exchange[int]:
        """Ask the processor to try a parked stream again, or all; return their number."""
        path = ("parked", "retry") if parked is None else ("parked", parked, "retry")
        request = HttpRequest(method="POST", url=group_address(self._url, name, *path), headers=_ACCEPTED)
        answer = yield from self._json.send(request, is_transient, 200 if parked is None else 204)
        found: int = decode_response(answer, _Retried).retried if parked is None else 1
        return found

    def skip_parked(self, name: str, parked: str, reason: str) -> Exchange[None]:
        """Ask the processor to pass over what waits of a parked stream."""
        url = group_address(self._url, name, "parked", parked, "skip")
        request = HttpRequest(method="POST", url=url, headers=_JSON, body=msgspec.json.encode({"reason": reason}))
        yield from self._json.send(request, is_not_applied, 204)

    def renew(
        self, name: str, member: str, tranches: Iterable[str], lease_seconds: float, *, leaving: bool
    ) -> Exchange[HeldTranches]:
        """Extend the lease of a member of a group that knows *tranches*; return what it has."""
        body = {"tranches": [*tranches], "lease_seconds": lease_seconds, "leaving": leaving}
        return (yield from self._ask_member(name, member, (), body))

    def release(self, name: str, member: str, tranches: Iterable[str]) -> Exchange[HeldTranches]:
        """Let others have *tranches* of a member; return what it has."""
        return (yield from self._ask_member(name, member, ("release",), {"tranches": [*tranches]}))

    def leave(self, name: str, member: str) -> Exchange[None]:
        """Let others have all that a member has, and forget it."""
        url = group_address(self._url, name, "members", member)
        yield from self._json.send(HttpRequest(method="DELETE", url=url), is_transient, 204)

    def _ask_member(self, name: str, member: str, path: tuple[str, ...], body: Any) -> Exchange[HeldTranches]:
        url = group_address(self._url, name, "members", member, *path)
        request = HttpRequest(method="POST", url=url, headers=_JSON, body=msgspec.json.encode(body))
        answer = yield from self._json.send(request, is_transient, 200)
        found: HeldTranches = decode_response(answer, HeldTranches)
        return found

    def forget(self, name: str) -> Exchange[None]:
        """Delete a group with its positions."""
        request = HttpRequest(method="DELETE", url=group_address(self._url, name))
        yield from self._json.send(request, is_not_applied, 204)

    def _make_positions_request(self, method: str, name: str, body: Any) -> HttpRequest:
        url = group_address(self._url, name, "positions")
        return HttpRequest(method=method, url=url, headers=_JSON, body=msgspec.json.encode(body))

    def _page(self, url: str, item: type[Item]) -> Exchange[ListPage[Item]]:
        answer = yield from self._json.send(HttpRequest(method="GET", url=url, headers=_ACCEPTED), is_transient, 200)
        found: ListPage[Item] = decode_response(answer, ListPage[item])  # type: ignore[valid-type]
        return found


def _query(asked: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [(name, value) for name, value in asked.items() if value is not None]


class _Committed(msgspec.Struct):
    items: list[CommittedPosition]


class _Retried(msgspec.Struct):
    retried: int


class _Reset(msgspec.Struct):
    items: list[ResetPosition]
