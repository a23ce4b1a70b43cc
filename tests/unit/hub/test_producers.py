"""Producers are claimed, found, listed, asked for and forgotten."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from penstock.core.claim import EPOCH_MAX, Claim
from penstock.core.event_type import Feed
from penstock.core.producer import MODULUS, Ending, Range, State
from penstock.errors import (
    ClaimRefused,
    DatabaseUnavailable,
    EpochExhausted,
    EventTypeNotFound,
    OutcomeUnknown,
    PartitionNotFound,
    PenstockError,
    ProducerNotFound,
    TooManyProducers,
    Unavailable,
)
from penstock.hub import sequencing
from penstock.hub.committed import Committed
from penstock.hub.expiry import Expiry
from penstock.hub.producers import RACES_MAX, Producers, expired, new_group
from penstock.hub.stamped import Who
from penstock.storage import Store
from penstock.storage.producer_rows import SqlProducers
from penstock.storage.producers import Window
from penstock.storage.sqlite.events import SqliteEvents
from penstock.testing.clock import START_AT, VirtualClock
from tests.unit.hub.feeds import NAME, created
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.numbering import change, fill, known, numbered, settle

G = Who(NAME, 0, "g")
IDLE_S = 1000
EXPIRES_AT = START_AT + IDLE_S * 1_000_000


@pytest.fixture
def feed(store: Store) -> Feed:
    """An event type of two partitions; the first has a log, see `fill`."""
    feed = created(store, partition_count=2)
    fill(store, feed)
    return feed


@pytest.fixture
def producers(forwarding: ForwardingStore, clock: VirtualClock, feed: Feed) -> Producers:
    assert feed
    return Producers(forwarding, clock, Expiry(idle_s=IDLE_S), MODULUS)


NOWHERE: dict[str, tuple[Who, PenstockError]] = {
    "event type": (Who("nobody.s", 0, "g"), EventTypeNotFound(event_type="nobody.s")),
    "partition": (Who(NAME, 2, "g"), PartitionNotFound(event_type=NAME, partition=2, partition_count=2)),
    "producer": (Who(NAME, 0, "h"), ProducerNotFound(event_type=NAME, partition=0, producer_group="h")),
    "producer in this partition": (Who(NAME, 1, "g"), ProducerNotFound(
        event_type=NAME, partition=1, producer_group="g")),
}  # fmt: skip


@pytest.mark.parametrize(("who", "error"), NOWHERE.values(), ids=NOWHERE)
def test_one_that_there_is_not_is_told_so(producers: Producers, who: Who, error: PenstockError) -> None:
    told: list[PenstockError] = []
    for ask in (producers.find, producers.forget, lambda who: producers.committed(who, 0, 1)):
        with pytest.raises(PenstockError) as raised:
            ask(who)
        told.append(raised.value)
    if not isinstance(error, ProducerNotFound):
        for ask in (lambda who: producers.claim(who, Claim()), lambda who: producers.list(*who[:2], after="", limit=9)):
            with pytest.raises(PenstockError) as raised:
                ask(who)
            told.append(raised.value)

    assert {(type(each), str(each.fields)) for each in told} == {(type(error), str(error.fields))}


class TestFind:
    def test_one_is_found_with_how_far_back_it_is_known_and_how_long(
        self, producers: Producers, clock: VirtualClock
    ) -> None:
        clock.advance(seconds=5)

        found = producers.find(G)

        assert (found.producer.state, found.producer.name) == (State(3, 0, 5, 8, Ending(2, 2, 2)), "g")
        assert (found.window, found.expires_at) == (Window(2, 0), EXPIRES_AT)

    def test_a_pinned_one_and_one_that_has_expired_do_not_expire(
        self, producers: Producers, store: Store, feed: Feed
    ) -> None:
        change(store, feed, is_pinned=True)
        assert producers.find(G).expires_at is None

        producers.forget(G)
        found = producers.find(G)
        assert (found.expires_at, found.producer.state.is_expired) == (None, True)

    def test_they_are_listed_page_by_page(self, producers: Producers, store: Store, feed: Feed) -> None:
        for group in "hji":
            settle(store, numbered(feed, 0, 0, "a", group=group))
        settle(store, numbered(feed, 0, 0, "a", group="k", partition=1))

        pages = [producers.list(NAME, 0, after=after, limit=2) for after in ("", "h", "j")]

        assert [[each.producer.name for each in page] for page in pages] == [["g", "h"], ["i", "j"], []]
        assert {(each.window, each.expires_at) for page in pages for each in page} == {(None, EXPIRES_AT)}

    def test_what_of_a_batch_is_stored_is_of_the_current_epoch_unless_another_is_named(
        self, producers: Producers
    ) -> None:
        assert producers.committed(G, 3, 2) == (3, Committed(True, [Range(7, 8)]))
        assert producers.committed(G, 0, 2, epoch=2) == (2, Committed(True, [Range(1, 2)]))
        assert producers.committed(G, 0, 2, epoch=0) == (0, Committed(None))


class TestClaim:
    def test_the_first_makes_it_known(
        self, producers: Producers, store: Store, feed: Feed, clock: VirtualClock
    ) -> None:
        clock.advance(seconds=5)

        found = producers.claim(Who(NAME, 1, "g"), Claim(level=7, starting=4, claim_id="mine", is_pinned=True))

        assert found.producer == known(store, feed, partition=1)
        assert found.producer[2:] == ("g", State(7, 4, 4), "mine", True, START_AT + 5_000_000)
        assert (found.window, found.expires_at) == (None, None)
        [told] = settle(store, numbered(feed, 7, 4, "a", partition=1))
        assert not isinstance(told, PenstockError)

    def test_the_next_takes_over_and_shuts_out_who_was_there(
        self, producers: Producers, store: Store, feed: Feed, clock: VirtualClock
    ) -> None:
        clock.advance(seconds=5)

        found = producers.claim(G, Claim(claim_id="mine"))

        assert found.producer == known(store, feed)
        assert found.producer[3:] == (State(4, 0, 0, previous=Ending(3, 5, 8)), "mine", False, START_AT + 5_000_000)
        assert found.expires_at == EXPIRES_AT + 5_000_000
        shut_out, goes_on = (settle(store, numbered(feed, *each))[0] for each in [(3, 5, "f"), (4, 0, "f")])
        assert isinstance(shut_out, PenstockError)
        assert shut_out.code == "producer-fenced"
        assert not isinstance(goes_on, PenstockError)

    @pytest.mark.parametrize(
        "claim",
        [Claim(claim_id="mine"), Claim(level=3, starting=5), Claim(level=3, starting=5, claim_id="b", is_pinned=True)],
        ids=["again", "to go on", "to go on, and more"],
    )
    def test_where_nothing_is_taken_over_it_is_a_sign_of_life_and_may_pin(
        self, producers: Producers, store: Store, feed: Feed, clock: VirtualClock, claim: Claim
    ) -> None:
        before = change(store, feed, claim_id="mine")
        clock.advance(seconds=5)

        found = producers.claim(G, claim).producer

        wanted = before._replace(updated_at=START_AT + 5_000_000, is_pinned=bool(claim.is_pinned))
        assert found == wanted == known(store, feed)

    def test_a_new_one_with_an_id_can_be_asked_for_again(self, producers: Producers) -> None:
        who = Who(NAME, 0, "h")

        first, again, other = (producers.claim(who, Claim(claim_id=each)).producer for each in "aab")

        assert (first, first.state.epoch) == (again, 0)
        assert (other.id, other.state.epoch) == (first.id, 1)

    @pytest.mark.parametrize("group", ["g", "h"])
    def test_what_cannot_be_had_is_told_with_where_it_stands(
        self, producers: Producers, store: Store, feed: Feed, group: str
    ) -> None:
        before = known(store, feed, group)

        with pytest.raises(ClaimRefused) as told:
            producers.claim(Who(NAME, 0, group), Claim(if_epoch=2))

        stands: dict[str, Any] = {"current_epoch": None, "next_sequence": None}
        if before:
            stands = {"current_epoch": 3, "next_sequence": 5}
        wanted = "a claim that is to hold only while the epoch is 2"
        assert told.value.fields == {"producer_group": group, "partition": 0, "wanted": wanted} | stands
        assert known(store, feed, group) == before

    def test_after_the_last_epoch_there_is_none(self, producers: Producers) -> None:
        producers.claim(G, Claim(level=EPOCH_MAX))

        with pytest.raises(EpochExhausted) as told:
            producers.claim(G, Claim())

        stands = {"current_epoch": EPOCH_MAX, "next_sequence": 0}
        assert told.value.fields == {"producer_group": "g", "partition": 0} | stands

    def test_one_that_is_forgotten_goes_on_above_where_it_was(self, producers: Producers) -> None:
        producers.forget(G)

        with pytest.raises(ClaimRefused) as told:
            producers.claim(G, Claim(level=3, starting=0))
        found = producers.claim(G, Claim(is_pinned=True))

        assert (told.value.fields["current_epoch"], told.value.fields["next_sequence"]) == (3, None)
        assert (found.producer.state, found.producer.is_pinned) == (State(4, 0, 0), True)

    def test_no_new_one_is_taken_where_there_are_as_many_as_there_may_be(
        self, producers: Producers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 1)

        with pytest.raises(TooManyProducers) as told:
            producers.claim(Who(NAME, 0, "h"), Claim())

        assert told.value.fields == {"event_type": NAME, "partition": 0, "limit": 1}
        assert producers.claim(G, Claim()).producer.state.epoch == 4
        assert producers.claim(Who(NAME, 1, "h"), Claim()).producer.state.epoch == 0

    def test_one_that_has_expired_begins_anew_only_where_there_is_room(
        self, producers: Producers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 1)
        producers.forget(G)
        assert producers.claim(Who(NAME, 0, "h"), Claim()).producer.state.epoch == 0

        with pytest.raises(TooManyProducers):
            producers.claim(G, Claim())

        producers.forget(Who(NAME, 0, "h"))
        assert producers.claim(G, Claim()).producer.state.epoch == 4

    def test_numbers_are_told_as_they_are_on_the_wire(self, store: Store, clock: VirtualClock, feed: Feed) -> None:
        producers = Producers(store, clock, Expiry(), 8)
        for number in (5, 0, 3):
            settle(store, numbered(feed, 3, number, "fgh"), modulus=8)

        with pytest.raises(ClaimRefused) as told:
            producers.claim(G, Claim(level=3))
        assert told.value.fields["next_sequence"] == 6
        assert producers.claim(G, Claim(level=3, starting=6)).producer.state.next == 14
        assert producers.committed(G, 4, 2) == (3, Committed(True, [Range(16, 17)]))

    def test_a_new_one_is_recorded_by_who_has_locked_the_head_of_its_partition(
        self, producers: Producers, feed: Feed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[Any] = []

        def told(name: str, own: Any) -> Any:
            def call(self: Any, *given: Any, **others: Any) -> Any:
                calls.append((name, given[0]))
                return own(self, *given, **others)

            return call

        for kind, name in ((SqlProducers, "lock"), (SqliteEvents, "lock_heads"), (SqlProducers, "insert")):
            monkeypatch.setattr(kind, name, told(name, getattr(kind, name)))

        producers.claim(Who(NAME, 1, "h"), Claim())

        key = (feed.partition_ids[1], "h")
        assert calls == [("lock", [key]), ("lock_heads", [key[0]]), ("insert", key)]

    def test_of_those_who_claim_at_once_each_has_its_own(self, producers: Producers) -> None:
        claimers = 4
        go = Barrier(claimers)

        def claim(who: Who) -> list[int]:
            go.wait()
            return [producers.claim(who, Claim()).producer.state.epoch for _ in range(5)]

        with ThreadPoolExecutor(claimers) as threads:
            had = sorted(epoch for epochs in threads.map(claim, [Who(NAME, 0, "h")] * claimers) for epoch in epochs)

        assert had == list(range(5 * claimers))


class TestRaces:
    @pytest.mark.parametrize("method", ["lock", "insert"])
    @pytest.mark.parametrize("times", [1, RACES_MAX - 1, RACES_MAX])
    def test_where_another_comes_between_it_is_asked_for_again(
        self, producers: Producers, monkeypatch: pytest.MonkeyPatch, method: str, times: int
    ) -> None:
        own, overlooked = getattr(SqlProducers, method), {"lock": {}, "insert": None}[method]
        calls = []

        def come_between(*given: Any, **others: Any) -> Any:
            calls.append(given)
            return overlooked if len(calls) <= times else own(*given, **others)

        monkeypatch.setattr(SqlProducers, method, come_between)
        who = Who(NAME, 0, "h")

        if times < RACES_MAX:
            assert producers.claim(who, Claim()).producer.state.epoch == 0
        else:
            with pytest.raises(Unavailable, match="others keep claiming 'h'") as told:
                producers.claim(who, Claim())
            assert told.value.retryable
        assert len(calls) == min(times + 1, RACES_MAX)

    def test_one_whose_outcome_nobody_knows_can_be_made_again(
        self, producers: Producers, forwarding: ForwardingStore
    ) -> None:
        def fail(_number: int) -> None:
            raise OutcomeUnknown(reason="the line was cut")

        forwarding.at_write = fail

        with pytest.raises(DatabaseUnavailable) as told:
            producers.claim(G, Claim())

        assert told.value.fields == {"reason": "the line was cut", "retry_after": 1}


class TestForget:
    def test_nothing_but_the_epoch_is_left(
        self, producers: Producers, store: Store, feed: Feed, clock: VirtualClock
    ) -> None:
        before = change(store, feed, claim_id="mine", is_pinned=True)
        clock.advance(seconds=5)

        producers.forget(G)

        after = known(store, feed)
        assert after is not None
        assert (after.id, after.state.epoch, after.state.is_expired) == (before.id, 3, True)
        assert (after.claim_id, after.is_pinned, after.updated_at) == (None, False, START_AT + 5_000_000)
        assert expired(before, START_AT)[3:] == (State(3, 0, 0, is_expired=True), None, False, START_AT)

    def test_one_that_is_forgotten_is_not_forgotten_later(
        self, producers: Producers, store: Store, feed: Feed, clock: VirtualClock
    ) -> None:
        producers.forget(G)
        before = known(store, feed)
        clock.advance(seconds=5)

        producers.forget(G)

        assert known(store, feed) == before


def test_a_new_group_is_a_ulid_and_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {new_group() for _ in range(1000)}

    assert len(groups) == 1000
    assert all(re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", group) for group in groups)
    monkeypatch.setattr(time, "time_ns", lambda: 1_469_918_176_385_000_000)
    assert new_group()[:10] == "01ARYZ6S41", "of the ULID specification's own example"
