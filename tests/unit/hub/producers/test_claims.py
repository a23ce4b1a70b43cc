"""Producers are claimed, found, listed and forgotten."""

import re
import time
from typing import Any

import pytest

from penstock.core.producers import EPOCH_MAX, EpochClaim, EpochEnd, OffsetRange, ProducerState
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import (
    ClaimRefused,
    EpochExhausted,
    EventTypeNotFound,
    LimitReached,
    PartitionNotFound,
    PenstockError,
    ProducerNotFound,
    Unavailable,
)
from penstock.hub.hub import Hub
from penstock.hub.log.publish import ProducerName
from penstock.hub.producers import sequencing
from penstock.hub.producers.producers import RACES_MAX, Expiry, Producers, expire, new_group
from penstock.hub.producers.sequencing import BatchPresence
from penstock.storage import Store
from penstock.storage.producers import BatchWindow, ProducerRepository
from penstock.storage.sqlite.log.events import SqliteLog
from penstock.testing.clock import START_AT, VirtualClock
from tests.failing import has_code
from tests.store_contract.database import together
from tests.unit.hub.feeds import NAME
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.numbering import a_batch, change, find_producer, settle

G, H = ProducerName(NAME, 0, "g"), ProducerName(NAME, 0, "h")
TTL_SECONDS = 1000
EXPIRES_AT = START_AT + TTL_SECONDS * 1_000_000
AT_5 = START_AT + 5_000_000
"""The time of the clock of `producers`."""


@pytest.fixture
def producers(forwarding: ForwardingStore, clock: VirtualClock, feed: StoredFeed) -> Producers:
    assert feed
    clock.advance(seconds=5)
    return Hub(forwarding, clock=clock, expiry=Expiry(ttl_seconds=TTL_SECONDS)).producers  # type: ignore[arg-type]


UNKNOWN: dict[str, tuple[ProducerName, PenstockError]] = {
    "event type": (ProducerName("nobody.s", 0, "g"), EventTypeNotFound(event_type="nobody.s")),
    "partition": (ProducerName(NAME, 2, "g"), PartitionNotFound(event_type=NAME, partition=2, partition_count=2)),
    "producer": (H, ProducerNotFound(event_type=NAME, partition=0, producer_group="h")),
    "producer in this partition": (ProducerName(NAME, 1, "g"), ProducerNotFound(
        event_type=NAME, partition=1, producer_group="g")),
}  # fmt: skip


@pytest.mark.parametrize(("who", "error"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_producer_is_not_found(producers: Producers, who: ProducerName, error: PenstockError) -> None:
    calls: list[Any] = [producers.find, producers.forget, lambda who: producers.find_presence(who, 0, 1)]
    if not isinstance(error, ProducerNotFound):
        calls += [
            lambda who: producers.claim(who, EpochClaim()),
            lambda who: producers.list(*who[:2], after="", limit=9),
        ]
    for call in calls:
        with pytest.raises(type(error)) as raised:
            call(who)
        assert (type(raised.value), raised.value.fields) == (type(error), error.fields)


def test_producer_is_found_with_its_state_its_window_and_its_expiry(producers: Producers) -> None:
    found = producers.find(G)

    assert (found.producer.state, found.producer.name) == (ProducerState(3, 0, 5, 8, EpochEnd(2, 2, 2)), "g")
    assert (found.window, found.expires_at) == (BatchWindow(2, 0, EpochEnd(3, 5, 8)), EXPIRES_AT)


def test_pinned_and_expired_producers_have_no_expiry(producers: Producers, store: Store, feed: StoredFeed) -> None:
    change(store, feed, is_pinned=True)
    assert producers.find(G).expires_at is None

    producers.forget(G)
    found = producers.find(G)
    assert (found.expires_at, found.producer.state.is_expired) == (None, True)


def test_producers_of_a_partition_are_listed_page_by_page(producers: Producers, store: Store, feed: StoredFeed) -> None:
    for group in "hji":
        settle(store, a_batch(feed, 0, 0, "a", group=group))
    settle(store, a_batch(feed, 0, 0, "a", group="k", partition=1))

    pages = [producers.list(NAME, 0, after=after, limit=2) for after in ("", "h", "j")]

    assert [[each.producer.name for each in page] for page in pages] == [["g", "h"], ["i", "j"], []]
    assert {(each.window, each.expires_at) for page in pages for each in page} == {(None, EXPIRES_AT)}


def test_committed_asks_about_the_current_epoch_by_default(producers: Producers) -> None:
    assert producers.find_presence(G, 3, 2) == (3, BatchPresence(True, [OffsetRange(7, 8)]))
    assert producers.find_presence(G, 0, 2, epoch=2) == (2, BatchPresence(True, [OffsetRange(1, 2)]))
    assert producers.find_presence(G, 0, 2, epoch=0) == (0, BatchPresence(None))


def test_first_claim_creates_a_producer(producers: Producers, store: Store, feed: StoredFeed) -> None:
    found = producers.claim(
        ProducerName(NAME, 1, "g"), EpochClaim(epoch=7, starting=4, claim_id="mine", is_pinned=True)
    )

    assert found.producer == find_producer(store, feed, partition=1)
    assert found.producer[2:] == ("g", ProducerState(7, 4, 4), "mine", True, AT_5)
    assert (found.window, found.expires_at) == (None, None)
    [told] = settle(store, a_batch(feed, 7, 4, "a", partition=1))
    assert not isinstance(told, PenstockError)


def test_next_claim_takes_over_and_fences_the_producer_before(
    producers: Producers, store: Store, feed: StoredFeed
) -> None:
    found = producers.claim(G, EpochClaim(claim_id="mine"))

    assert found.producer == find_producer(store, feed)
    assert found.producer[3:] == (ProducerState(4, 0, 0, previous=EpochEnd(3, 5, 8)), "mine", False, AT_5)
    assert found.expires_at == EXPIRES_AT + 5_000_000
    fenced, appended = (settle(store, a_batch(feed, *each))[0] for each in [(3, 5, "f"), (4, 0, "f")])
    assert isinstance(fenced, PenstockError)
    assert fenced.code == "producer-fenced"
    assert not isinstance(appended, PenstockError)


@pytest.mark.parametrize(
    "claim",
    [
        EpochClaim(claim_id="mine"),
        EpochClaim(epoch=3, starting=5),
        EpochClaim(epoch=3, starting=5, claim_id="b", is_pinned=True),
    ],
    ids=["again", "to go on", "to go on, and pin"],
)
def test_claim_of_the_same_epoch_is_a_heartbeat_and_may_pin(
    producers: Producers, store: Store, feed: StoredFeed, claim: EpochClaim
) -> None:
    before = change(store, feed, claim_id="mine")

    found = producers.claim(G, claim).producer

    wanted = before._replace(updated_at=AT_5, is_pinned=bool(claim.is_pinned))
    assert found == wanted == find_producer(store, feed)


def test_claim_with_an_id_can_be_repeated(producers: Producers) -> None:
    first, again, other = (producers.claim(H, EpochClaim(claim_id=each)).producer for each in "aab")

    assert (first, first.state.epoch) == (again, 0)
    assert (other.id, other.state.epoch) == (first.id, 1)


@pytest.mark.parametrize("group", ["g", "h"])
def test_refused_claim_tells_the_current_state_and_changes_nothing(
    producers: Producers, store: Store, feed: StoredFeed, group: str
) -> None:
    before = find_producer(store, feed, group)

    with pytest.raises(ClaimRefused) as refused:
        producers.claim(ProducerName(NAME, 0, group), EpochClaim(if_epoch=2))

    epoch, sequence = (3, 5) if before else (None, None)
    assert refused.value.fields == {
        "producer_group": group,
        "partition": 0,
        "wanted": "a claim that is to hold only while the epoch is 2",
        "current_epoch": epoch,
        "next_sequence": sequence,
    }
    assert find_producer(store, feed, group) == before


def test_claim_after_the_last_epoch_is_refused(producers: Producers) -> None:
    producers.claim(G, EpochClaim(epoch=EPOCH_MAX))

    with pytest.raises(EpochExhausted) as refused:
        producers.claim(G, EpochClaim())

    state = {"current_epoch": EPOCH_MAX, "next_sequence": 0}
    assert refused.value.fields == {"producer_group": "g", "partition": 0} | state


def test_claim_of_a_new_or_expired_producer_beyond_the_limit_is_refused(
    producers: Producers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 1)

    with pytest.raises(LimitReached, check=has_code("too-many-producers")) as refused:
        producers.claim(H, EpochClaim())
    assert refused.value.fields == {"event_type": NAME, "partition": 0, "limit": 1}
    assert producers.claim(G, EpochClaim()).producer.state.epoch == 4
    assert producers.claim(ProducerName(NAME, 1, "h"), EpochClaim()).producer.state.epoch == 0

    producers.forget(G)
    assert producers.claim(H, EpochClaim()).producer.state.epoch == 0
    with pytest.raises(LimitReached, check=has_code("too-many-producers")):
        producers.claim(G, EpochClaim())
    producers.forget(H)
    assert producers.claim(G, EpochClaim()).producer.state.epoch == 5


def test_sequence_numbers_of_a_claim_are_those_of_the_wire(store: Store, clock: VirtualClock, feed: StoredFeed) -> None:
    producers = Hub(store, clock=clock, sequence_modulus=8).producers
    for number in (5, 0, 3):
        settle(store, a_batch(feed, 3, number, "fgh"), modulus=8)

    with pytest.raises(ClaimRefused) as refused:
        producers.claim(G, EpochClaim(epoch=3))
    assert refused.value.next_sequence == 6
    assert producers.claim(G, EpochClaim(epoch=3, starting=6)).producer.state.next == 14
    assert producers.find_presence(G, 4, 2) == (3, BatchPresence(True, [OffsetRange(16, 17)]))


def test_new_producer_is_inserted_under_the_lock_of_its_partition(
    producers: Producers, feed: StoredFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def note(name: str, method: Any) -> Any:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            calls.append((name, args[0]))
            return method(self, *args, **options)

        return call

    for kind, name in ((ProducerRepository, "find"), (SqliteLog, "find_heads"), (ProducerRepository, "insert")):
        monkeypatch.setattr(kind, name, note(name, getattr(kind, name)))

    producers.claim(ProducerName(NAME, 1, "h"), EpochClaim())

    key = (feed.partition_ids[1], "h")
    assert calls == [("find", [key]), ("find_heads", [key[0]]), ("insert", key)]


def test_concurrent_claims_have_an_epoch_each(producers: Producers) -> None:
    def claim() -> list[int]:
        return [producers.claim(H, EpochClaim()).producer.state.epoch for _ in range(5)]

    assert sorted(epoch for each in together(*[claim] * 4) for epoch in each) == list(range(20))


@pytest.mark.parametrize("method", ["find", "insert"])
@pytest.mark.parametrize("times", [1, RACES_MAX - 1, RACES_MAX])
def test_claim_that_loses_a_race_is_repeated_up_to_a_limit(
    producers: Producers, monkeypatch: pytest.MonkeyPatch, method: str, times: int
) -> None:
    own, lost = getattr(ProducerRepository, method), {"find": {}, "insert": None}[method]
    calls = []

    def lose(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return lost if len(calls) <= times else own(*args, **options)

    monkeypatch.setattr(ProducerRepository, method, lose)

    if times < RACES_MAX:
        assert producers.claim(H, EpochClaim()).producer.state.epoch == 0
    else:
        with pytest.raises(Unavailable, match="others keep claiming 'h'") as raised:
            producers.claim(H, EpochClaim())
        assert raised.value.retryable
    assert len(calls) == min(times + 1, RACES_MAX)


def test_forgotten_producer_keeps_its_epoch_alone_and_continues_above_it(
    producers: Producers, store: Store, feed: StoredFeed, clock: VirtualClock
) -> None:
    before = change(store, feed, claim_id="mine", is_pinned=True)

    producers.forget(G)

    after = find_producer(store, feed)
    assert after is not None
    assert (after.id, after.state.epoch, after.state.is_expired) == (before.id, 3, True)
    assert (after.claim_id, after.is_pinned, after.updated_at) == (None, False, AT_5)
    assert expire(before, START_AT)[3:] == (ProducerState(3, 0, 0, is_expired=True), None, False, START_AT)
    clock.advance(seconds=5)
    producers.forget(G)
    assert find_producer(store, feed) == after, "it is forgotten once"

    with pytest.raises(ClaimRefused) as refused:
        producers.claim(G, EpochClaim(epoch=3, starting=0))
    assert (refused.value.current_epoch, refused.value.next_sequence) == (3, None)
    claimed = producers.claim(G, EpochClaim(is_pinned=True)).producer
    assert (claimed.state, claimed.is_pinned) == (ProducerState(4, 0, 0), True)


def test_new_producer_group_is_a_unique_ulid(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {new_group() for _ in range(1000)}

    assert len(groups) == 1000
    assert all(re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", group) for group in groups)
    monkeypatch.setattr(time, "time_ns", lambda: 1_469_918_176_385_000_000)
    assert new_group()[:10] == "01ARYZ6S41", "of the ULID specification's own example"
