"""How long what is known of a producer lasts, and what is said once it is forgotten; time is moved by hand."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from penstock.errors import InvalidSetting
from penstock.hub.clock import rfc3339
from penstock.hub.expiry import BATCHES_KEPT, DAY_S, Expiry
from penstock.hub.hub import Hub
from penstock.hub.sweep import Sweeper
from penstock.storage import open_store
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.store_contract.database import database_at
from tests.producing import Producer, hub_here
from tests.served import create, problem_of

WEEK_S = 7 * DAY_S


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def mine(migrated_url: str, clock: VirtualClock) -> Iterator[Producer]:
    """Of a hub that does not sweep by itself."""
    with hub_here(migrated_url, clock=clock, starts=False) as http:
        yield Producer(create(http))


def shown_at(seconds: float) -> str:
    return rfc3339(START_AT + int(seconds * 1_000_000))


def sweep(url: str, clock: VirtualClock) -> None:
    """Have all removed that nobody needs any more."""
    with closing(open_store(url)) as store:
        sweeper = Sweeper(store, clock)
        while sweeper._remove_some():
            pass
        sweeper.stop()


def drop_events(url: str, mine: Producer, floor: int) -> None:
    """Have retention remove what lies before *floor*."""
    with closing(open_store(url)) as store, store.read() as tx:
        [partition_id] = tx.feeds.find(mine.feed.name).partition_ids  # type: ignore[union-attr]
    database = database_at(url)
    database.run("UPDATE penstock_partition SET floor = ? WHERE id = ?", floor, partition_id)
    database.run('DELETE FROM penstock_event WHERE partition_id = ? AND "offset" < ?', partition_id, floor)


def test_f29_idle_for_a_week(mine: Producer, migrated_url: str, clock: VirtualClock) -> None:
    mine.appends(0, [1, 2])
    mine.appends(0, [3], epoch=4)
    clock.advance(seconds=WEEK_S + 1)
    sweep(migrated_url, clock)

    answer = mine.send(1, [4], epoch=4)

    gone = {"received": 1, "current_epoch": 4, "next_sequence": None, "committed": None}
    mine.refused(answer, 410, "producer-state-expired", **gone)
    mine.refused(mine.send(0, [3], epoch=4), 410, "producer-state-expired", **gone | {"received": 0})
    mine.refused(mine.send(2, [5], epoch=1), 410, "producer-state-expired", **gone | {"received": 2})
    granted = mine.claims(owner_level="next")
    assert (granted["owner_level"], granted["next_sequence"], granted["previous"]) == (5, 0, None)
    assert mine.appends(0, [4], epoch=5) == 3
    mine.refused(
        mine.send(1, [5], epoch=4), 412, "producer-fenced", received=1, current_epoch=5, next_sequence=1,
        committed=None,
    )  # fmt: skip
    assert mine.log() == [1, 2, 3, 4]


def test_f29_nothing_is_forgotten_before_a_week_is_over(mine: Producer, migrated_url: str, clock: VirtualClock) -> None:
    mine.appends(0, [1])
    for sequence in range(1, 4):
        clock.advance(seconds=WEEK_S)
        sweep(migrated_url, clock)
        assert mine.shown()["expires_at"] == shown_at(sequence * WEEK_S)
        assert mine.appends(sequence, [sequence + 1]) == sequence, "whoever publishes is heard of"
    clock.advance(seconds=WEEK_S)
    sweep(migrated_url, clock)
    assert mine.stores(0, [1, 2, 3, 4])["outcome"] == "duplicate"


def test_f29_a_higher_epoch_goes_on_without_a_claim(mine: Producer, migrated_url: str, clock: VirtualClock) -> None:
    mine.appends(0, [1], epoch=4)
    clock.advance(seconds=WEEK_S + 1)
    sweep(migrated_url, clock)

    mine.refused(
        mine.send(1, [2], epoch=5), 409, "sequence-gap", received=1, expected=0, current_epoch=4, next_sequence=None
    )
    assert mine.appends(0, [2], epoch=5) == 1


@pytest.mark.parametrize("body", [{"owner_level": 4}, {"owner_level": 4, "starting_sequence": 1}, {"owner_level": 3}])
def test_f29_a_forgotten_epoch_cannot_be_claimed_again(
    mine: Producer, migrated_url: str, clock: VirtualClock, body: dict[str, int]
) -> None:
    mine.claims(owner_level=4, claim_id="a")
    mine.appends(0, [1], epoch=4)
    clock.advance(seconds=WEEK_S + 1)
    sweep(migrated_url, clock)

    wanted = f"epoch {body['owner_level']} from number {body.get('starting_sequence', 0)}"
    for claim_id in ({}, {"claim_id": "a"}):
        answer = mine.claim(**body, **claim_id)
        mine.told(answer, 412, "claim-refused", current_epoch=4, next_sequence=None, wanted=wanted)


def test_f29_how_a_forgotten_one_is_shown(mine: Producer, migrated_url: str, clock: VirtualClock) -> None:
    mine.appends(0, [1], epoch=4)
    now = clock.advance(seconds=WEEK_S + 1)
    sweep(migrated_url, clock)

    assert mine.shown() == {
        "producer_group": "mine", "partition": 0, "owner_level": 4, "last_published_sequence": None,
        "next_sequence": None, "last_offset": None, "previous": None,
        "window": {"batches": 0, "oldest_sequence": None}, "pinned": False, "expired": True,
        "updated_at": rfc3339(now), "expires_at": None, "expires_after_s": WEEK_S, "sequence_modulus": 2**53,
    }  # fmt: skip
    assert mine.found(0) == {"epoch": 4, "stored": None, "ranges": []}


def test_a_pinned_producer_is_never_forgotten(mine: Producer, migrated_url: str, clock: VirtualClock) -> None:
    assert mine.claims(pinned=True)["pinned"] is True
    mine.appends(0, [1])
    clock.advance(seconds=100 * WEEK_S)
    sweep(migrated_url, clock)

    assert mine.shown()["expires_at"] is None
    assert mine.stores(0, [1])["outcome"] == "duplicate"
    assert mine.claims()["pinned"] is True, "it is as it was where a claim says nothing of it"
    assert mine.claims(pinned=False)["pinned"] is False
    assert mine.shown()["expires_at"] == shown_at(101 * WEEK_S)


def test_a_claim_is_a_sign_of_life(mine: Producer, migrated_url: str, clock: VirtualClock) -> None:
    mine.claims(claim_id="a", starting_sequence=5)
    for week, body in enumerate(({"claim_id": "a"}, {"owner_level": 0, "starting_sequence": 5}, {"claim_id": "a"}), 1):
        clock.advance(seconds=WEEK_S)
        granted = mine.claims(**body)
        assert (granted["owner_level"], granted["expires_at"]) == (0, shown_at((week + 1) * WEEK_S))
        sweep(migrated_url, clock)
    assert mine.claim(owner_level=0).status_code == 412
    clock.advance(seconds=WEEK_S + 1)
    sweep(migrated_url, clock)
    assert mine.shown()["expired"] is True, "a claim that is refused is none"


def test_even_the_epoch_is_forgotten_after_a_month(mine: Producer, migrated_url: str, clock: VirtualClock) -> None:
    mine.appends(0, [1], epoch=4)
    clock.advance(seconds=WEEK_S + 1)
    sweep(migrated_url, clock)
    clock.advance(seconds=30 * DAY_S)
    sweep(migrated_url, clock)
    assert mine.shown()["owner_level"] == 4
    clock.advance(seconds=1)
    sweep(migrated_url, clock)

    problem = problem_of(mine.http.get(mine.path), 404, "producer-not-found")
    assert problem["detail"] == f"nobody has published to {mine.feed.name!r}, partition 0, as 'mine'"
    assert mine.claims()["owner_level"] == 0
    assert mine.log() == [1], "the events stay"


def test_deleting_a_producer_forgets_all_but_its_epoch(mine: Producer, migrated_url: str, clock: VirtualClock) -> None:
    mine.appends(0, [1], epoch=2)

    answers = [mine.http.delete(mine.path) for _ in range(2)]

    assert [(each.status_code, each.content) for each in answers] == [(204, b"")] * 2
    shown = mine.shown()
    assert (shown["owner_level"], shown["next_sequence"], shown["expired"]) == (2, None, True)
    gone = {"current_epoch": 2, "next_sequence": None}
    lies = [{"first": 0, "last": 0}]
    mine.refused(
        mine.send(0, [1], epoch=2), 410, "producer-state-expired", received=0, committed=True, ranges=lies, **gone
    )
    mine.refused(mine.send(1, [2], epoch=2), 410, "producer-state-expired", received=1, **gone)
    sweep(migrated_url, clock)
    mine.refused(mine.send(0, [1], epoch=2), 410, "producer-state-expired", received=0, committed=None, **gone)
    assert mine.claims()["owner_level"] == 3
    assert mine.log() == [1]


def test_deleting_one_of_whom_nobody_has_heard(mine: Producer) -> None:
    problem_of(mine.http.delete(mine.path), 404, "producer-not-found")
    problem_of(mine.http.delete(mine.other(partition=1).path), 404, "partition-not-found")


def test_f17_number_of_long_ago_once_the_events_are_gone(
    mine: Producer, migrated_url: str, clock: VirtualClock
) -> None:
    """The newest batches are known all the same."""
    count = BATCHES_KEPT + 4
    for number in range(count):
        mine.appends(2 * number, [2 * number, 2 * number + 1])
    drop_events(migrated_url, mine, 2 * count)
    assert mine.shown()["window"] == {"batches": count, "oldest_sequence": 0}
    sweep(migrated_url, clock)

    assert mine.shown()["window"] == {"batches": BATCHES_KEPT, "oldest_sequence": 8}
    old = {"next_sequence": 2 * count, "committed": None}
    for sequence, ids in ((0, [0, 1]), (6, [6, 7, 8]), (7, [7])):
        mine.refused(mine.send(sequence, ids), 409, "sequence-too-old", received=sequence, **old)
    assert mine.stores(8, [8, 9])["offsets"] == {"first": 8, "last": 9}
    differs = mine.send(6, [6, 7, 99])
    mine.refused(differs, 422, "payload-mismatch", received=6, differs_at=8, next_sequence=2 * count)
    assert mine.found(0, count=2) == {"epoch": 0, "stored": None, "ranges": []}
    assert mine.appends(2 * count, [count]) == 2 * count


def test_f17_what_is_too_old_is_fenced_without_a_verdict(
    mine: Producer, migrated_url: str, clock: VirtualClock
) -> None:
    for number in range(BATCHES_KEPT + 1):
        mine.appends(number, [number])
    drop_events(migrated_url, mine, BATCHES_KEPT + 1)
    sweep(migrated_url, clock)
    mine.claims()

    fenced = {"current_epoch": 1, "next_sequence": 0}
    lies = [{"first": 1, "last": 1}]
    mine.refused(mine.send(0, [0]), 412, "producer-fenced", received=0, committed=None, **fenced)
    mine.refused(mine.send(1, [1]), 412, "producer-fenced", received=1, committed=True, ranges=lies, **fenced)


@pytest.mark.parametrize("idle_s", [0, 239.9])
def test_f30_a_hub_that_would_forget_too_soon_does_not_start(migrated_url: str, idle_s: float) -> None:
    with closing(open_store(migrated_url)) as store, pytest.raises(InvalidSetting) as raised:
        Hub(store, expiry=Expiry(idle_s=idle_s))
    assert raised.value.fields == {
        "field": "producer_ttl",
        "reason": f"is {idle_s:g} s; it has to be 240 or more, twice what a client may send a batch for",
    }


# Numbers that wrap around


@contextmanager
def small(url: str, **traits: Any) -> Iterator[Producer]:
    """A hub whose numbers are counted modulo 16."""
    with hub_here(url, sequence_modulus=16, **traits) as http:
        yield Producer(create(http))


def test_f31_numbers_wrap_within_a_batch(migrated_url: str) -> None:
    with small(migrated_url) as mine:
        mine.appends(0, range(7))
        mine.appends(7, range(7, 14))

        appended, again = (mine.stores(14, [14, 15, 16, 17]) for _ in range(2))

        assert appended["sequence"] == again["sequence"] == {"first": 14, "last": 1, "next": 2}
        assert appended["offsets"] == again["offsets"] == {"first": 14, "last": 17}
        assert (appended["outcome"], again["outcome"]) == ("appended", "duplicate")
        assert mine.stores(15, [15, 16])["offsets"] == {"first": 15, "last": 16}
        assert mine.stores(0, [16, 17, 18], Overlap="trim")["ranges"] == [
            {"first": 16, "last": 17}, {"first": 18, "last": 18},
        ]  # fmt: skip
        mine.refused(mine.send(1, [9]), 422, "payload-mismatch", received=1, differs_at=1, next_sequence=3)
        mine.refused(mine.send(4, [9]), 409, "sequence-gap", received=4, expected=3, next_sequence=3)
        shown = mine.shown()
        assert (shown["last_published_sequence"], shown["next_sequence"], shown["sequence_modulus"]) == (2, 3, 16)
        assert mine.found(14, count=5)["ranges"] == [{"first": 14, "last": 18}]
        assert mine.claims()["previous"] == {"epoch": 0, "next_sequence": 3, "last_offset": 18}
        assert mine.log() == list(range(19))


def test_f31_numbers_wrap_many_times(migrated_url: str) -> None:
    with small(migrated_url) as mine:
        for number in range(0, 100, 5):
            assert mine.appends(number % 16, range(number, number + 5)) == number
            assert mine.stores(number % 16, range(number, number + 5))["outcome"] == "duplicate"
        assert mine.log() == list(range(100))


def test_f31_a_batch_is_smaller_than_half_of_all_numbers(migrated_url: str) -> None:
    with small(migrated_url) as mine:
        problem = problem_of(mine.send(0, range(8)), 413, "too-many-events")
        assert problem["limit"] == 7
        assert mine.appends(0, range(7)) == 0


def test_f32_a_copy_that_is_stuck_for_as_long_as_numbers_take_to_wrap_around(migrated_url: str) -> None:
    """Why there are 2^53 of them: a copy that comes after all were given is taken for what comes next."""
    with small(migrated_url) as mine:
        for number in range(16):
            mine.appends(number, [number])
            if number == 9:
                far = mine.send(0, [0])
                mine.refused(far, 409, "sequence-gap", received=0, expected=10, next_sequence=10)

        assert mine.stores(0, [0])["outcome"] == "appended"
        assert mine.log() == [*range(16), 0]


def test_f32_a_producer_that_claims_when_its_numbers_wrap_around_is_safe(migrated_url: str) -> None:
    with small(migrated_url) as mine:
        for number in range(16):
            mine.appends(number, [number])
        mine.claims()

        mine.refused(mine.send(0, [0]), 412, "producer-fenced", received=0, current_epoch=1, next_sequence=0)
        assert mine.appends(0, [16], epoch=1) == 16
        assert mine.log() == list(range(17))
