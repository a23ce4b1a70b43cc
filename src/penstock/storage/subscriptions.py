"""Port of subscriptions: their definitions, sessions, slots and parked keys, and the hubs that stream them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.fields import Definition
from penstock.core.groups.groups import SUBSCRIPTION
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import SubscriptionSearch
from penstock.storage.groups import Position
from penstock.storage.statements import SqlRunner

_decode_definition: Final = msgspec.json.Decoder(dict[str, Any]).decode
_decode_places: Final = msgspec.json.Decoder(frozenset[FeedPartition]).decode


class StoredSubscription(NamedTuple):
    """Subscription as the store knows it."""

    id: str
    """Also the name of its consumer group."""
    definition: Definition
    created_at: int
    updated_at: int
    revision: int
    """Raised by every change that the subscription's streams have to react to."""
    resetting_until: int | None
    """Deadline, by the database's clock, for streams to end for a reset; None if there is no reset."""


class StoredSession(NamedTuple):
    """Session of a subscription: one stream, also after it has ended while it may still commit.

    All times are of the database's clock.
    """

    id: str
    subscription: str
    hub_id: str
    wants: frozenset[FeedPartition]
    """Partitions that the client requested; none if the session takes its share."""
    batch_limit: int
    commit_ms: int
    """Commit timeout of the stream."""
    secret: bytes
    """Key of the cursor tokens that the stream issues."""
    opened_at: int
    extensions: int
    """How often the client has restarted the commit timeout."""
    holds_until: int | None
    """Until when an ended stream may commit and keeps its partitions; None while it is streaming."""
    seen_at: int
    """Last heartbeat of the session's hub; 0 if that hub is unknown."""


class StoredSlot(NamedTuple):
    """Partition of a subscription that has begun: its owner and its position."""

    place: FeedPartition
    owner: str | None
    successor: str | None
    """Session that gets the partition once its owner releases it."""
    sent: int | None
    """Offset after the events that an owner was sent before its stream ended; None while it is streaming."""
    failed: int
    """Number of streams in a row that ended without committing the events they were sent."""
    single_until: int
    """Events below this offset are sent one by one."""
    epoch: int
    offset: int
    """Next offset wanted, after all committed events."""
    committed_at: int

    @property
    def position(self) -> Position:
        """The position of the consumer group in this partition."""
        return Position(self.place[0], "", self.place[1], self.epoch, self.offset)


class StoredParkedKey(NamedTuple):
    """Key whose events are parked."""

    id: int
    place: FeedPartition
    key: str | None
    """None for an event without a key, which is parked alone."""
    attempts: int
    """How often the first event was sent without being committed."""
    parked_at: int
    is_retried: bool
    """True if the events are to be sent again, or are being sent."""
    events: int
    first: int
    """Offset of the first parked event."""
    last: int
    """Offset of the last parked event."""


class SubscriptionRepository:
    """Subscriptions with their sessions, slots and parked keys.

    A transaction that changes anything of a subscription has locked it. A subscription is a consumer group: its
    positions are those of the group, and deleting the group deletes it.
    """

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run
        self._run_each = sql.run_each

    def insert(
        self,
        subscription: StoredSubscription,
        identity: str,
        event_type_ids: Collection[int],
        owner: str | None = None,
    ) -> bool:
        """Create a subscription with its consumer group; return False if one of that *identity* exists.

        Waits for a transaction that inserts the same identity.
        """
        own, at = subscription.definition, subscription.created_at
        self._run("insert_group", group=subscription.id, kind=SUBSCRIPTION, owner=owner, at=at)
        given = {"owning_application": own["owning_application"], "definition": _to_json(own), "at": at}
        if not self._run("subscription_insert", id=subscription.id, identity=identity, **given).rowcount:
            self._run("group_delete", name=subscription.id)
            return False
        self._run_each("subscription_read", [(subscription.id, each) for each in sorted(event_type_ids)])
        return True

    def find(
        self, id: str | None = None, *, identity: str | None = None, lock: bool = False
    ) -> StoredSubscription | None:
        """Return the subscription of that id or of that identity, or None.

        With *lock*, it is locked until the transaction ends; lock several in the order of their ids.
        """
        if identity is not None:
            rows = self._run("subscription_alike", identity=identity).fetchall()
        else:
            rows = self._run("subscription_lock" if lock else "subscription_find", id=id).fetchall()
        return _read_subscription(rows[0]) if rows else None

    def list(
        self, search: SubscriptionSearch, *, limit: int, offset: int = 0, after: str | None = None
    ) -> Sequence[StoredSubscription]:
        """Return up to *limit* subscriptions, newest first, without the newest *offset*.

        With *after*, return those whose ids come after that one, in the order of their ids.
        """
        data_type, value = search.reader or (None, None)
        given: dict[str, Any] = {
            "owner": search.owning_application,
            "event_types": _to_json(sorted(set(search.event_types))),
            "data_type": data_type,
            "value": value,
            "limit": limit,
        }
        if after is None:
            rows = self._run("subscriptions_newest", **given, offset=offset).fetchall()
        else:
            rows = self._run("subscriptions_after", **given, after=after).fetchall()
        return [_read_subscription(row) for row in rows]

    def list_readers(self, event_type: str) -> Sequence[str]:
        """Return the ids of the subscriptions that read an event type, sorted."""
        return sorted(each for (each,) in self._run("subscription_readers", event_type=event_type).fetchall())

    def update(self, subscription: StoredSubscription) -> None:
        """Record the definition, the time of update and the reset deadline of a locked subscription."""
        self._run(
            "subscription_update",
            id=subscription.id,
            definition=_to_json(subscription.definition),
            at=subscription.updated_at,
            until=subscription.resetting_until,
        )

    def revise(self, id: str) -> int:
        """Raise the revision of a locked subscription and return it."""
        [(revision,)] = self._run("subscription_revise", id=id).fetchall()
        return int(revision)

    def find_revisions(self, ids: Collection[str]) -> Mapping[str, int]:
        """Return the revision of each of these subscriptions that exists."""
        return dict(self._run("subscription_revisions", ids=_to_json(list(ids))).fetchall())

    def count_sessions(self, lease_us: int) -> int:
        """Return the number of streaming sessions whose hubs sent a heartbeat in the last *lease_us* microseconds."""
        [(count,)] = self._run("sessions_count", lease_us=lease_us).fetchall()
        return int(count)

    def list_sessions(self, id: str | None = None, *, hub_id: str | None = None) -> Sequence[StoredSession]:
        """Return the sessions of a subscription, also ended ones that may still commit, sorted by id.

        With *hub_id*, return the sessions of all subscriptions that this hub has to stream.
        """
        if hub_id is not None:
            rows = self._run("sessions_of_hub", hub_id=hub_id).fetchall()
        else:
            rows = self._run("sessions_find", id=id).fetchall()
        return [_read_session(row) for row in sorted(rows, key=itemgetter(0))]

    def put_session(self, session: StoredSession) -> None:
        """Add a session, or record its extensions and until when it holds its partitions."""
        given = session._asdict() | {"wants": _to_json(sorted(session.wants))}
        del given["seen_at"]
        self._run("session_put", **given)

    def delete_sessions(self, session_ids: Collection[str]) -> None:
        """Delete sessions."""
        self._run("sessions_close", ids=_to_json(list(session_ids)))

    def list_abandoned(self, ids: Collection[str], *, lease_us: int) -> Sequence[str]:
        """Return those of *ids* with a session that is over, or whose hub is silent for *lease_us* microseconds."""
        rows = self._run("sessions_abandoned", ids=_to_json(list(ids)), lease_us=lease_us).fetchall()
        return [each for (each,) in rows]

    def list_slots(self, id: str) -> Sequence[StoredSlot]:
        """Return the partitions of a subscription, in their order; none if it has not begun."""
        return [StoredSlot((row[0], row[1]), *row[2:]) for row in self._run("slots_find", id=id).fetchall()]

    def put_slots(self, id: str, slots: Iterable[StoredSlot]) -> None:
        """Record partitions without their positions, which `GroupRepository.put` records."""
        self._run_each(
            "slot_put",
            [
                (id, *each.place, each.owner, each.successor, each.sent, each.failed, each.single_until)
                for each in slots
            ],
        )

    def see_hub(self, hub_id: str) -> int:
        """Record a heartbeat of a hub, and return the time of the database's clock."""
        [(now,)] = self._run("hub_see", id=hub_id).fetchall()
        return int(now)

    def list_parked(self, id: str, *, counted: bool = True) -> Sequence[StoredParkedKey]:
        """Return the parked keys of a subscription, in the order of their ids; `events` is 0 unless *counted*."""
        rows = self._run("parked_list", subscription=id, counted=counted).fetchall()
        return [
            StoredParkedKey(parked_id, (event_type, partition), key, attempts, parked_at, bool(is_retried), *events)
            for parked_id, event_type, partition, key, attempts, parked_at, is_retried, *events in rows
        ]

    def park(self, id: str, place: FeedPartition, key: str | None, offset: int, *, attempts: int, at: int) -> None:
        """Park a key from that event on; if the key is parked already, add the event."""
        event_type, partition = place
        given = {"subscription": id, "event_type": event_type, "partition": partition, "key": key}
        rows = self._run("parked_find", **given).fetchall() if key is not None else []
        [(parked_id,)] = rows or self._run("park", **given, attempts=attempts, at=at).fetchall()
        self.add_parked({parked_id: [offset]})

    def add_parked(self, offsets: Mapping[int, Sequence[int]]) -> None:
        """Park more events, by the ids of their keys; skip events that are parked already."""
        self._run_each("parked_add", [(key_id, offset) for key_id, each in offsets.items() for offset in each])

    def list_old_parked(self, before: int, limit: int) -> Sequence[tuple[str, int]]:
        """Return up to *limit* keys that were parked before *before*, oldest first: subscription, and id of the key."""
        rows = self._run("parked_old", before=before, limit=limit).fetchall()
        return [(subscription, parked_id) for subscription, parked_id in rows]

    def list_parked_offsets(self, parked_id: int, *, after: int, limit: int) -> Sequence[int]:
        """Return up to *limit* offsets of the parked events of a key, above *after*, sorted."""
        rows = self._run("parked_offsets", id=parked_id, after=after, limit=limit).fetchall()
        return [offset for (offset,) in rows]

    def mark_parked(self, parked_ids: Collection[int], *, retried: bool) -> None:
        """Mark parked keys to be sent again; with *retried* false, mark that sending them has failed once more."""
        self._run("parked_mark", ids=_to_json(list(parked_ids)), retried=retried)

    def acknowledge_parked(self, last: Mapping[int, int]) -> None:
        """Delete the parked events of keys up to an offset, by the ids of the keys, and keys without parked events."""
        if last:
            self._run_each("parked_acknowledge", [*last.items()])
            self._run("parked_done", ids=_to_json(list(last)))

    def sweep(self, before: int) -> None:
        """Delete hubs without a heartbeat since *before* that have no sessions."""
        self._run("hubs_forget", before=before)


def _read_subscription(row: Sequence[Any]) -> StoredSubscription:
    subscription_id, definition, *rest = row
    return StoredSubscription(subscription_id, _decode_definition(definition), *rest)


def _read_session(row: Sequence[Any]) -> StoredSession:
    session_id, subscription, hub_id, wants, batch_limit, commit_ms, secret, *rest = row
    return StoredSession(
        session_id, subscription, hub_id, _decode_places(wants), batch_limit, commit_ms, bytes(secret), *rest
    )


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
