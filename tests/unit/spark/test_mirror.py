"""A query's mirror at the hub: how far it has come, and where it is to go on."""

import logging
from collections.abc import Mapping

import pytest

from penstock.errors import UnusablePosition
from penstock.spark.mirror import LOOK_INTERVAL, Mirror, Reset
from penstock.spark.offsets import FeedPlace

START = {"a": FeedPlace(1, (10, 20), reset=0), "b": FeedPlace(2, (5,), reset=0)}


class Scene:
    """A consumer group, and a clock that goes on by hand."""

    def __init__(self, *resets: Reset) -> None:
        self.now = 0.0
        self.history = list(resets)
        self.asked = 0
        self.stored: list[Mapping[str, FeedPlace]] = []
        self.mirror = Mirror(self, clock=lambda: self.now)

    def resets(self, after: int) -> list[Reset]:
        self.asked += 1
        return sorted((reset for reset in self.history if reset.id > after), reverse=True)

    def commit(self, places: Mapping[str, FeedPlace]) -> None:
        self.stored.append(places)


def test_reset_partitions_continue_there_and_others_stay() -> None:
    scene = Scene(Reset(7, "a", 1, 1, 3))

    assert scene.mirror.rewound(START) == ({"a": FeedPlace(1, (10, 3))}, 7)


def test_of_several_resets_the_last_counts() -> None:
    scene = Scene(Reset(7, "a", 1, 1, 3), Reset(8, "a", 0, 1, 0), Reset(9, "a", 1, 1, 15), Reset(10, "b", 0, 2, 0))

    assert scene.mirror.rewound(START) == ({"a": FeedPlace(1, (0, 15)), "b": FeedPlace(2, (0,))}, 10)


def test_reset_is_applied_once() -> None:
    scene = Scene(Reset(7, "a", 1, 1, 3))
    _, heeded = scene.mirror.rewound(START)
    after = {name: place._replace(reset=heeded) for name, place in START.items()}

    assert scene.mirror.rewound(after) == ({}, 7)
    assert Scene(*scene.history).mirror.rewound(after) == ({}, 7), "also by a query that is started again"


def test_added_event_type_does_not_apply_resets_again() -> None:
    scene = Scene(Reset(7, "a", 1, 1, 3))

    assert scene.mirror.rewound({"a": FeedPlace(1, (10, 20), reset=7), "b": FeedPlace(2, (5,))}) == ({}, 7)


@pytest.mark.parametrize("reset", [Reset(7, "a", 1, 9, 3), Reset(7, "a", 2, 1, 3), Reset(7, "other", 0, 1, 3)])
def test_reset_of_a_partition_or_epoch_not_read_is_ignored(reset: Reset) -> None:
    assert Scene(reset).mirror.rewound(START) == ({}, 7)


def test_checkpoint_older_than_the_group_ignores_earlier_resets() -> None:
    scene = Scene(Reset(7, "a", 1, 1, 3))
    before = {"a": FeedPlace(1, (10, 20))}

    assert scene.mirror.rewound(before) == ({}, 7)
    scene.history.append(Reset(8, "a", 0, 1, 0))
    scene.now += LOOK_INTERVAL
    assert scene.mirror.rewound(before) == ({"a": FeedPlace(1, (0, 20))}, 8)


def test_a_new_query_knows_which_resets_were_before_it() -> None:
    assert Scene().mirror.newest() == 0
    assert Scene(Reset(7, "a", 1, 1, 3), Reset(9, "b", 0, 2, 0)).mirror.newest() == 9


def test_resets_are_looked_for_once_in_a_while() -> None:
    scene = Scene()
    for _ in range(5):
        scene.mirror.rewound(START)
    assert scene.asked == 1

    scene.now += LOOK_INTERVAL
    scene.mirror.rewound(START)
    assert scene.asked == 2


def test_progress_is_reported_at_intervals_and_only_once() -> None:
    scene = Scene()
    further = START | {"b": FeedPlace(2, (6,))}
    for places in (START, START, further):
        scene.mirror.tell(places, at_once=False)
    assert scene.stored == [START]

    scene.now += LOOK_INTERVAL
    for _ in range(2):
        scene.mirror.tell(further, at_once=False)
        scene.now += LOOK_INTERVAL
    assert scene.stored == [START, further]


def test_progress_can_be_reported_immediately() -> None:
    scene = Scene()
    further = START | {"b": FeedPlace(2, (6,))}
    for places in (START, further):
        scene.mirror.tell(places, at_once=True)
    assert scene.stored == [START, further]


def test_a_position_that_the_feed_no_longer_has_ends_no_query(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    def refuse(places: Mapping[str, FeedPlace]) -> None:
        raise UnusablePosition(item=0, event_type="a", partition=0, reason="another epoch")

    scene.commit = refuse  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        scene.mirror.tell(START, at_once=True)

    assert "the consumer group is not shown where the query is" in caplog.text
