"""Expiry of producers, answers to forgotten ones, and numbers that wrap around."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock.core.times import format_time
from penstock.errors import InvalidSetting
from penstock.hub.admin.sweeping import Sweeper
from penstock.hub.hub import Hub
from penstock.hub.producers.producers import BATCHES_KEPT, DAY_SECONDS, Expiry
from penstock.storage import open_store
from penstock.testing.clock import START_AT, VirtualClock
from tests.producing import Producer, hub_here
from tests.served import create, problem_of
from tests.store_contract.database import database_at

WEEK_SECONDS = 7 * DAY_SECONDS


class Scene:
    """A producer group `mine` of a hub with a virtual clock, which sweeps on request."""

    def __init__(self, mine: Producer, url: str, clock: VirtualClock) -> None:
        self.mine = mine
        self.url = url
        self.clock = clock

    def sweep_after(self, seconds: float = 0) -> int:
        """Advance the clock, and remove what has expired; return the time."""
        now = self.clock.advance(seconds=seconds)
        with closing(open_store(self.url)) as store:
            sweeper = Sweeper(store, self.clock)
            while sweeper._expire_some() or sweeper._remove_some():
                pass
            sweeper.stop()
        return now

    def drop_events(self, floor: int) -> None:
        """Remove the events before *floor*, as retention does, and sweep."""
        with closing(open_store(self.url)) as store, store.read() as tx:
            [partition_id] = tx.registry.find(self.mine.feed.name).partition_ids  # type: ignore[union-attr]
        database = database_at(self.url)
        database.run("UPDATE penstock_partition SET floor = ? WHERE id = ?", floor, partition_id)
        database.run('DELETE FROM penstock_event WHERE partition_id = ? AND "offset" < ?', partition_id, floor)
        self.sweep_after()


@pytest.fixture
def scene(migrated_url: str) -> Iterator[Scene]:
    clock = VirtualClock()
    with hub_here(migrated_url, clock=clock, starts=False) as http:
        yield Scene(Producer(create(http)), migrated_url, clock)


@pytest.fixture
def mine(scene: Scene) -> Producer:
    return scene.mine


@pytest.fixture
def small(migrated_url: str) -> Iterator[Producer]:
    """A producer of a hub that counts modulo 16."""
    with hub_here(migrated_url, sequence_modulus=16) as http:
        yield Producer(create(http))


def shown_at(seconds: float) -> str:
    return format_time(START_AT + int(seconds * 1_000_000))


# Expiry


def test_producer_that_is_idle_for_more_than_a_week_has_to_claim(mine: Producer, scene: Scene) -> None:
    mine.claims(epoch=4, claim_id="a")
    mine.appends(0, [1], epoch=4)
    now = scene.sweep_after(WEEK_SECONDS + 1)

    assert mine.shown() == {
        "producer_group": "mine", "partition": 0, "epoch": 4, "last_published_sequence": None,
        "next_sequence": None, "last_offset": None, "previous": None,
        "window": {"batches": 0, "oldest_sequence": None}, "pinned": False, "expired": True,
        "updated_at": format_time(now), "expires_at": None, "expires_after_seconds": WEEK_SECONDS,
        "sequence_modulus": 2**53,
    }  # fmt: skip
    assert mine.found(0) == {"epoch": 4, "stored": None, "ranges": []}
    gone = {"current_epoch": 4, "next_sequence": None}
    for sequence, epoch in ((1, 4), (0, 4), (2, 1)):
        answer = mine.send(sequence, [1], epoch=epoch)
        mine.refused(answer, 410, "producer-state-expired", received=sequence, committed=None, **gone)
    for body in ({"epoch": 4}, {"epoch": 4, "starting_sequence": 1}, {"epoch": 3}):
        wanted = f"epoch {body['epoch']} from number {body.get('starting_sequence', 0)}"
        for claim_id in ({}, {"claim_id": "a"}):
            mine.told(mine.claim(**body, **claim_id), 412, "claim-refused", wanted=wanted, **gone)
    mine.refused(mine.send(1, [2], epoch=5), 409, "sequence-gap", received=1, expected=0, **gone)

    granted = mine.claims(epoch="next")
    assert (granted["epoch"], granted["next_sequence"], granted["previous"]) == (5, 0, None)
    assert mine.appends(0, [4], epoch=5) == 1
    fenced = mine.send(1, [5], epoch=4)
    mine.refused(fenced, 412, "producer-fenced", received=1, current_epoch=5, next_sequence=1, committed=None)
    assert mine.log() == [1, 4]


def test_expired_producer_takes_over_with_a_higher_epoch_without_a_claim(mine: Producer, scene: Scene) -> None:
    mine.appends(0, [1], epoch=4)
    scene.sweep_after(WEEK_SECONDS + 1)
    assert mine.appends(0, [2], epoch=5) == 1


def test_producer_that_publishes_or_claims_each_week_does_not_expire(mine: Producer, scene: Scene) -> None:
    """A refused claim does not count."""
    mine.appends(0, [1])
    for sequence in range(1, 4):
        scene.sweep_after(WEEK_SECONDS)
        assert mine.shown()["expires_at"] == shown_at(sequence * WEEK_SECONDS)
        assert mine.appends(sequence, [sequence + 1]) == sequence
    scene.sweep_after(WEEK_SECONDS)
    assert mine.stores(0, [1, 2, 3, 4])["outcome"] == "duplicate"
    mine.claims(claim_id="a", starting_sequence=5)
    for week, body in enumerate(({"claim_id": "a"}, {"epoch": 1, "starting_sequence": 5}), 5):
        scene.clock.advance(seconds=WEEK_SECONDS)
        granted = mine.claims(**body)
        assert (granted["epoch"], granted["expires_at"]) == (1, shown_at((week + 1) * WEEK_SECONDS))
        scene.sweep_after()
    assert mine.claim(epoch=0).status_code == 412
    scene.sweep_after(WEEK_SECONDS + 1)
    assert mine.shown()["expired"] is True


def test_pinned_producer_never_expires(mine: Producer, scene: Scene) -> None:
    assert mine.claims(pinned=True)["pinned"] is True
    mine.appends(0, [1])
    scene.sweep_after(100 * WEEK_SECONDS)
    assert mine.shown()["expires_at"] is None
    assert mine.stores(0, [1])["outcome"] == "duplicate"
    assert mine.claims()["pinned"] is True, "a claim that does not say changes nothing"
    assert mine.claims(pinned=False)["pinned"] is False
    assert mine.shown()["expires_at"] == shown_at(101 * WEEK_SECONDS)


def test_epoch_is_forgotten_a_month_after_the_producer_expired(mine: Producer, scene: Scene) -> None:
    mine.appends(0, [1], epoch=4)
    scene.sweep_after(WEEK_SECONDS + 1)
    scene.sweep_after(30 * DAY_SECONDS)
    assert mine.shown()["epoch"] == 4
    scene.sweep_after(1)
    problem = problem_of(mine.http.get(mine.path), 404, "producer-not-found")
    assert problem["detail"] == (
        f"nothing was published to {mine.feed.name!r}, partition 0, with producer group 'mine'"
    )
    assert mine.claims()["epoch"] == 0
    assert mine.log() == [1], "the events stay"


def test_deleted_producer_keeps_its_epoch_alone(mine: Producer, scene: Scene) -> None:
    problem_of(mine.http.delete(mine.path), 404, "producer-not-found")
    problem_of(mine.http.delete(mine.other(partition=1).path), 404, "partition-not-found")
    mine.appends(0, [1], epoch=2)
    answers = [mine.http.delete(mine.path) for _ in range(2)]
    assert [(each.status_code, each.content) for each in answers] == [(204, b"")] * 2
    shown = mine.shown()
    assert (shown["epoch"], shown["next_sequence"], shown["expired"]) == (2, None, True)

    def refuse(sequence: int, **members: object) -> None:
        answer = mine.send(sequence, [sequence + 1], epoch=2)
        gone = {"received": sequence, "current_epoch": 2, "next_sequence": None}
        mine.refused(answer, 410, "producer-state-expired", **gone, **members)

    refuse(0, committed=True, ranges=[{"first": 0, "last": 0}])
    refuse(1)
    scene.sweep_after()
    refuse(0, committed=None)
    assert mine.claims()["epoch"] == 3
    assert mine.log() == [1]


def test_newest_batches_are_known_after_their_events_are_gone(mine: Producer, scene: Scene) -> None:
    count = BATCHES_KEPT + 4
    for number in range(count):
        mine.appends(2 * number, [2 * number, 2 * number + 1])
    assert mine.shown()["window"] == {"batches": count, "oldest_sequence": 0}
    scene.drop_events(2 * count)
    assert mine.shown()["window"] == {"batches": BATCHES_KEPT, "oldest_sequence": 8}
    for sequence, ids in ((0, [0, 1]), (6, [6, 7, 8]), (7, [7])):
        mine.refused(
            mine.send(sequence, ids), 409, "sequence-too-old", received=sequence, next_sequence=2 * count,
            committed=None,
        )  # fmt: skip
    assert mine.stores(8, [8, 9])["offsets"] == {"first": 8, "last": 9}
    differs = mine.send(6, [6, 7, 99])
    mine.refused(differs, 422, "payload-mismatch", received=6, differs_at=8, next_sequence=2 * count)
    assert mine.found(0, count=2) == {"epoch": 0, "stored": None, "ranges": []}
    assert mine.appends(2 * count, [count]) == 2 * count
    mine.claims()
    fenced = {"current_epoch": 1, "next_sequence": 0}
    mine.refused(mine.send(0, [0]), 412, "producer-fenced", received=0, committed=None, **fenced)
    known = [{"first": 2 * count, "last": 2 * count}]
    answer = mine.send(2 * count, [count])
    mine.refused(answer, 412, "producer-fenced", received=2 * count, committed=True, ranges=known, **fenced)


@pytest.mark.parametrize("ttl_seconds", [0, 239.9])
def test_hub_that_would_forget_producers_too_soon_does_not_start(sqlite_url: str, ttl_seconds: float) -> None:
    with closing(open_store(sqlite_url)) as store, pytest.raises(InvalidSetting) as raised:
        Hub(store, expiry=Expiry(ttl_seconds=ttl_seconds))
    assert raised.value.fields == {
        "field": "producer_ttl",
        "reason": f"is {ttl_seconds:g} s; it has to be 240 or more, twice what a client may send a batch for",
    }


# Numbers that wrap around


def test_numbers_wrap_around_within_a_batch(small: Producer) -> None:
    small.appends(0, range(7))
    small.appends(7, range(7, 14))
    appended, again = (small.stores(14, [14, 15, 16, 17]) for _ in range(2))
    assert appended["sequence"] == again["sequence"] == {"first": 14, "last": 1, "next": 2}
    assert appended["offsets"] == again["offsets"] == {"first": 14, "last": 17}
    assert (appended["outcome"], again["outcome"]) == ("appended", "duplicate")
    assert small.stores(15, [15, 16])["offsets"] == {"first": 15, "last": 16}
    ranges = small.stores(0, [16, 17, 18], Overlap="trim")["ranges"]
    assert ranges == [{"first": 16, "last": 17}, {"first": 18, "last": 18}]
    small.refused(small.send(1, [9]), 422, "payload-mismatch", received=1, differs_at=1, next_sequence=3)
    small.refused(small.send(4, [9]), 409, "sequence-gap", received=4, expected=3, next_sequence=3)
    shown = small.shown()
    assert (shown["last_published_sequence"], shown["next_sequence"], shown["sequence_modulus"]) == (2, 3, 16)
    assert small.found(14, count=5)["ranges"] == [{"first": 14, "last": 18}]
    assert small.claims()["previous"] == {"epoch": 0, "next_sequence": 3, "last_offset": 18}
    assert small.log() == list(range(19))


def test_numbers_wrap_around_many_times(small: Producer) -> None:
    for number in range(0, 60, 5):
        assert small.appends(number % 16, range(number, number + 5)) == number
        assert small.stores(number % 16, range(number, number + 5))["outcome"] == "duplicate"
    assert small.log() == list(range(60))


def test_batch_has_less_than_half_of_all_numbers(small: Producer) -> None:
    assert problem_of(small.send(0, range(8)), 413, "too-many-events")["limit"] == 7
    assert small.appends(0, range(7)) == 0


def test_copy_that_is_late_by_a_whole_round_is_appended_unless_its_producer_has_claimed(small: Producer) -> None:
    """For this reason there are 2^53 numbers: it is taken for the next batch."""
    claiming = small.other("claiming")
    for number in range(16):
        for producer in (small, claiming):
            producer.appends(number, [number])
        if number == 9:
            far = small.send(0, [0])
            small.refused(far, 409, "sequence-gap", received=0, expected=10, next_sequence=10)
    assert small.stores(0, [0])["outcome"] == "appended"
    claiming.claims()
    claiming.refused(claiming.send(0, [0]), 412, "producer-fenced", received=0, current_epoch=1, next_sequence=0)
    claiming.appends(0, [16], epoch=1)
    assert small.log()[-2:] == [0, 16]
