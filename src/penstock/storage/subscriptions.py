"""What the seam knows of subscriptions: what each is, who streams it, and how far it has come in each partition."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.core.fields import Definition
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import SubscriptionSearch


class Subscription(NamedTuple):
    """A subscription."""

    id: str
    """Also the name of its consumer group."""
    definition: Definition
    created_at: int
    updated_at: int
    revision: int
    """Moves with whatever those who stream it have to hear of."""
    resetting_until: int | None
    """Until when, by the database's clock, its streams make way for a reset at the latest; None: for none."""


class Session(NamedTuple):
    """A stream of a subscription; times are the database's clock's."""

    id: str
    hub_id: str
    wants: frozenset[FeedPartition]
    """The partitions that it has asked for; none: its share."""
    batch_limit: int
    commit_ms: int
    """How long it has to commit what it was sent."""
    secret: bytes
    """By which it is known what it was sent."""
    opened_at: int
    extensions: int
    """How often that time was begun anew."""
    holds_until: int | None
    """Until when it may still commit, and keeps what it has to; None: it is streaming."""
    seen_at: int
    """When its hub was last seen; 0: nobody knows that hub any more."""


class Slot(NamedTuple):
    """A partition of a subscription that has been begun."""

    place: FeedPartition
    owner: str | None
    heir: str | None
    """The session that gets it as soon as its owner has let go of it."""
    sent: int | None
    """The offset after what an owner was sent that has ended; None: it has not."""
    failed: int
    """So often in a row a stream has ended without having committed what it was sent of it."""
    single_until: int
    """Events below this offset are sent one by one."""
    epoch: int
    offset: int
    """The offset wanted next, after all that is committed."""
    committed_at: int

    @property
    def kept(self) -> tuple[str, int, str | None, str | None, int | None, int, int]:
        """What is stored of it beside its position."""
        return (*self.place, self.owner, self.heir, self.sent, self.failed, self.single_until)


class Subscriptions(Protocol):
    """Subscriptions, and their streams. Whoever changes anything of a subscription has locked it."""

    def now(self) -> int:
        """Return what time it is by the database's clock: the same one for all hubs."""

    def insert(self, subscription: Subscription, identity: str, event_type_ids: Collection[int]) -> bool:
        """Create it, with its consumer group; False: there is one of that *identity*, and nothing was done.

        Who inserts another of that identity meanwhile is waited for.
        """

    def find(self, id: str) -> Subscription | None:
        """Return the subscription of that id, or None."""

    def alike(self, identity: str) -> Subscription | None:
        """Return the subscription of that identity, or None."""

    def lock(self, id: str) -> Subscription | None:
        """Return it, locked until the transaction ends, or None. Of several in the order of their ids."""

    def readers(self, event_type: str) -> Sequence[str]:
        """Return the ids of those that read an event type, sorted."""

    def newest(self, search: SubscriptionSearch, *, limit: int, offset: int) -> Sequence[Subscription]:
        """Return up to *limit*, the newest first, without the first *offset*."""

    def after(self, search: SubscriptionSearch, *, id: str, limit: int) -> Sequence[Subscription]:
        """Return up to *limit* whose ids come after *id*, in the order of their ids."""

    def change(self, id: str, definition: Definition, at: int) -> None:
        """Let a locked one be what *definition* says."""

    def delete(self, id: str) -> None:
        """Drop a locked one, with its consumer group and all that is known of it."""

    def revise(self, id: str) -> int:
        """Move the revision of a locked one, and return it."""

    def reset_until(self, id: str, until: int | None) -> None:
        """Have the streams of a locked one make way for a reset, or no longer."""

    def revisions(self, ids: Collection[str]) -> Mapping[str, int]:
        """Return the revision of each that there is."""

    def sessions(self, id: str) -> Sequence[Session]:
        """Return the streams of a subscription, also those that have ended and may still commit, sorted by id."""

    def open(self, id: str, session: Session) -> None:
        """Add a stream."""

    def hold(self, session_id: str, until: int) -> None:
        """Let a stream be one that has ended, and may still commit until then."""

    def extend(self, session_id: str) -> None:
        """Note that a stream has begun its time to commit anew."""

    def close(self, session_ids: Collection[str]) -> None:
        """Forget streams."""

    def slots(self, id: str) -> Sequence[Slot]:
        """Return the partitions of a subscription, in their order; none where it has not been begun."""

    def begin(self, id: str, slots: Iterable[Slot], at: int) -> None:
        """Add partitions, with their positions."""

    def put(self, id: str, slots: Iterable[Slot]) -> None:
        """Record what is kept of partitions beside their positions."""

    def move(self, id: str, offsets: Mapping[FeedPartition, int], at: int) -> None:
        """Record positions: the offsets wanted next."""

    def streaming(self, hub_id: str) -> Sequence[tuple[str, str]]:
        """Return the streams that a hub is to be sending, each by its subscription and its id."""

    def see(self, hub_id: str) -> int:
        """Note that a hub is there, and return what time it is by the database's clock."""

    def forget_hubs(self, before: int) -> None:
        """Forget hubs last seen *before*, unless streams of theirs are known."""

    def abandoned(self, ids: Collection[str], *, lease: int) -> Sequence[str]:
        """Return those of *ids* that have a stream whose time is over, or whose hub was not seen for so long."""
