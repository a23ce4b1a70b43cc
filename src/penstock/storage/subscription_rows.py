"""Subscriptions and their streams, in either database."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from penstock.core.fields import Definition
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import SubscriptionSearch
from penstock.storage.statements import Statements
from penstock.storage.subscriptions import Session, Slot, Subscription

KIND: Final = "subscription"
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_places: Final = msgspec.json.Decoder(frozenset[FeedPartition]).decode


class SqlSubscriptions:
    """See `penstock.storage.subscriptions.Subscriptions`."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run
        self._run_each = statements.run_each

    def now(self) -> int:
        """See `Subscriptions.now`."""
        return self._one("clock")

    def insert(self, subscription: Subscription, identity: str, event_type_ids: Collection[int]) -> bool:
        """See `Subscriptions.insert`."""
        own, at = subscription.definition, subscription.created_at
        self._run("insert_group", group=subscription.id, kind=KIND, at=at)
        given = {"owning_application": own["owning_application"], "definition": _json(own), "at": at}
        if not self._run("subscription_insert", id=subscription.id, identity=identity, **given).rowcount:
            self.delete(subscription.id)
            return False
        self._run_each("subscription_read", [(subscription.id, each) for each in sorted(event_type_ids)])
        return True

    def find(self, id: str) -> Subscription | None:
        """See `Subscriptions.find`."""
        return _first(self._run("subscription_find", id=id).fetchall())

    def alike(self, identity: str) -> Subscription | None:
        """See `Subscriptions.alike`."""
        return _first(self._run("subscription_alike", identity=identity).fetchall())

    def lock(self, id: str) -> Subscription | None:
        """See `Subscriptions.lock`."""
        return _first(self._run("subscription_lock", id=id).fetchall())

    def readers(self, event_type: str) -> Sequence[str]:
        """See `Subscriptions.readers`."""
        return [each for (each,) in self._run("subscription_readers", event_type=event_type).fetchall()]

    def newest(self, search: SubscriptionSearch, *, limit: int, offset: int) -> Sequence[Subscription]:
        """See `Subscriptions.newest`."""
        found = self._run("subscriptions_newest", **_wanted(search), limit=limit, offset=offset)
        return [_subscription(row) for row in found.fetchall()]

    def after(self, search: SubscriptionSearch, *, id: str, limit: int) -> Sequence[Subscription]:
        """See `Subscriptions.after`."""
        found = self._run("subscriptions_after", **_wanted(search), after=id, limit=limit)
        return [_subscription(row) for row in found.fetchall()]

    def change(self, id: str, definition: Definition, at: int) -> None:
        """See `Subscriptions.change`."""
        self._run("subscription_change", id=id, definition=_json(definition), at=at)

    def delete(self, id: str) -> None:
        """See `Subscriptions.delete`."""
        self._run("subscription_delete", id=id)

    def revise(self, id: str) -> int:
        """See `Subscriptions.revise`."""
        return self._one("subscription_revise", id=id)

    def reset_until(self, id: str, until: int | None) -> None:
        """See `Subscriptions.reset_until`."""
        self._run("subscription_reset", id=id, until=until)

    def revisions(self, ids: Collection[str]) -> Mapping[str, int]:
        """See `Subscriptions.revisions`."""
        return dict(self._run("subscription_revisions", ids=_json(list(ids))).fetchall())

    def sessions(self, id: str) -> Sequence[Session]:
        """See `Subscriptions.sessions`."""
        return [_session(row) for row in self._run("sessions_find", id=id).fetchall()]

    def open(self, id: str, session: Session) -> None:
        """See `Subscriptions.open`."""
        given = session._asdict() | {"wants": _json(sorted(session.wants)), "subscription": id}
        del given["seen_at"], given["holds_until"]
        self._run("session_open", **given)

    def hold(self, session_id: str, until: int) -> None:
        """See `Subscriptions.hold`."""
        self._run("session_hold", id=session_id, until=until)

    def extend(self, session_id: str) -> None:
        """See `Subscriptions.extend`."""
        self._run("session_extend", id=session_id)

    def close(self, session_ids: Collection[str]) -> None:
        """See `Subscriptions.close`."""
        self._run("sessions_close", ids=_json(list(session_ids)))

    def slots(self, id: str) -> Sequence[Slot]:
        """See `Subscriptions.slots`."""
        return [Slot((row[0], row[1]), *row[2:]) for row in self._run("slots_find", id=id).fetchall()]

    def begin(self, id: str, slots: Iterable[Slot], at: int) -> None:
        """See `Subscriptions.begin`."""
        slots = sorted(slots)
        self._run_each(
            "store_position", [(id, each.place[0], "", each.place[1], each.epoch, each.offset, at) for each in slots]
        )
        self.put(id, slots)

    def put(self, id: str, slots: Iterable[Slot]) -> None:
        """See `Subscriptions.put`."""
        self._run_each("slot_put", [(id, *each.kept) for each in slots])

    def move(self, id: str, offsets: Mapping[FeedPartition, int], at: int) -> None:
        """See `Subscriptions.move`."""
        self._run("slots_move", id=id, at=at, offsets=_json([(*place, offset) for place, offset in offsets.items()]))

    def streaming(self, hub_id: str) -> Sequence[tuple[str, str]]:
        """See `Subscriptions.streaming`."""
        return [(row[0], row[1]) for row in self._run("sessions_of_hub", hub_id=hub_id).fetchall()]

    def see(self, hub_id: str) -> int:
        """See `Subscriptions.see`."""
        return self._one("hub_see", id=hub_id)

    def forget_hubs(self, before: int) -> None:
        """See `Subscriptions.forget_hubs`."""
        self._run("hubs_forget", before=before)

    def abandoned(self, ids: Collection[str], *, lease: int) -> Sequence[str]:
        """See `Subscriptions.abandoned`."""
        return [each for (each,) in self._run("sessions_abandoned", ids=_json(list(ids)), lease=lease).fetchall()]

    def _one(self, name: str, **given: Any) -> int:
        [(found,)] = self._run(name, **given).fetchall()
        return int(found)


def _first(rows: Sequence[Sequence[Any]]) -> Subscription | None:
    return _subscription(rows[0]) if rows else None


def _subscription(row: Sequence[Any]) -> Subscription:
    subscription_id, definition, *rest = row
    return Subscription(subscription_id, _decode(definition), *rest)


def _session(row: Sequence[Any]) -> Session:
    found = Session(*row)
    return found._replace(wants=_places(row[2]), secret=bytes(found.secret))


def _wanted(search: SubscriptionSearch) -> dict[str, Any]:
    data_type, value = search.reader or (None, None)
    owner, event_types = search.owning_application, _json(sorted(set(search.event_types)))
    return {"owner": owner, "event_types": event_types, "data_type": data_type, "value": value}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
