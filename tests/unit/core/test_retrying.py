"""When an event is given up, by the digest of Nakadi's contract, 5.11: the mechanism, played through."""

from typing import Any

import pytest

from penstock.core.retrying import PARK_AFTER, POLICY, SEND_COUNT, Retrying, Start, retrying_of, start, wrong_policy


@pytest.mark.parametrize(
    ("annotations", "found"),
    [
        ({}, None),
        ({"other": "3"}, None),
        ({SEND_COUNT: "3", POLICY: "SKIP_EVENT"}, Retrying(3, "SKIP_EVENT")),
        ({SEND_COUNT: "10", POLICY: "DEAD_LETTER_QUEUE"}, Retrying(10, "DEAD_LETTER_QUEUE")),
        ({PARK_AFTER: "2"}, Retrying(2, "PARK_KEY")),
    ],
    ids=["nothing", "something else", "left out", "kept", "parked"],
)
def test_a_subscription_says_what_becomes_of_its_events(annotations: dict[str, str], found: Retrying | None) -> None:
    assert retrying_of({"annotations": annotations}) == found


@pytest.mark.parametrize(
    ("annotations", "fields"),
    [
        ({}, []),
        ({SEND_COUNT: "2", POLICY: "SKIP_EVENT"}, []),
        ({PARK_AFTER: "10"}, []),
        ({SEND_COUNT: "2"}, [POLICY]),
        ({POLICY: "SKIP_EVENT"}, [SEND_COUNT]),
        ({SEND_COUNT: "1", POLICY: "SKIP_EVENT"}, [SEND_COUNT]),
        ({SEND_COUNT: "11", POLICY: "skip_event"}, [SEND_COUNT, POLICY]),
        ({SEND_COUNT: "2", POLICY: "PARK_KEY"}, [POLICY]),
        ({PARK_AFTER: "1"}, [PARK_AFTER]),
        ({PARK_AFTER: "02"}, [PARK_AFTER]),
        ({PARK_AFTER: ""}, [PARK_AFTER]),
        ({PARK_AFTER: 2}, [PARK_AFTER]),
        ({PARK_AFTER: "2", SEND_COUNT: "2", POLICY: "SKIP_EVENT"}, [PARK_AFTER]),
        ({"penstock/park-after": "3"}, ["penstock/park-after"]),
    ],
    ids=[
        "nothing", "as Nakadi has it", "parking", "no policy", "no count", "too few", "too many, and no policy",
        "a policy of ours", "too few to park", "a nought too many", "empty", "a number", "two things at once",
        "misspelt",
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_of_each_field(annotations: dict[str, Any], fields: list[str]) -> None:
    assert [field for field, _ in wrong_policy(annotations)] == [f"annotations[{each}]" for each in fields]


def played(poison: set[int], *, limit: int, batch_limit: int, streams: int) -> tuple[list[str], list[int]]:
    """Play a consumer that commits what it can and leaves; return what it was sent, and what was given up."""
    failed = offset = single_until = 0
    told, given_up = [], []
    for _ in range(streams):
        begins = start(failed, offset, single_until, limit=limit, batch_limit=batch_limit)
        if begins.gives_up:
            given_up.append(offset)
            offset += 1
        failed, single_until = begins.failed, begins.single_until
        while True:
            size = 1 if offset < single_until else batch_limit
            told.append(f"{offset}+{size}")
            if poison.isdisjoint(range(offset, offset + size)):
                offset, failed = offset + size, 0
                if offset >= 12:
                    return told, given_up
                continue
            failed += 1
            break
    return told, given_up


def test_a_batch_fails_as_often_as_it_may_and_then_its_events_one_by_one() -> None:
    told, given_up = played({2}, limit=3, batch_limit=4, streams=9)

    assert told == ["0+4"] * 3 + ["0+1", "1+1", "2+1"] + ["2+1"] * 2 + ["3+1", "4+4", "8+4"]
    assert given_up == [2]


def test_each_of_several_guilty_ones_is_found() -> None:
    _, given_up = played({0, 3, 9}, limit=2, batch_limit=4, streams=30)

    assert given_up == [0, 3, 9]


def test_whoever_fails_less_often_goes_on_as_before() -> None:
    assert start(2, 7, 0, limit=3, batch_limit=4) == Start(2, 0, gives_up=False)
    assert start(2, 7, 9, limit=3, batch_limit=4) == Start(2, 9, gives_up=False)


def test_behind_the_events_that_were_sent_one_by_one_the_search_begins_anew() -> None:
    assert start(3, 9, 9, limit=3, batch_limit=4) == Start(0, 13, gives_up=False)
