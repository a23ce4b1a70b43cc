"""Of two commits of a position that expect the same one is stored; commits, resets and deletions never deadlock."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from penstock.core.groups import GroupReset, PositionCommit, ResetTarget
from penstock.errors import GroupKindDiffers, GroupNotFound, PositionMoved
from penstock.hub.hub import Hub
from penstock.storage.groups import GroupFilter
from tests.exhaustive import examples
from tests.producing import together
from tests.promises.scene import NAME, event, hub_on

GROUP = "ledger"
PARTITIONS = 4
EVENTS = examples(20, 40)
COMMITTERS = 4


@pytest.fixture
def hubs(url: str) -> Iterator[list[Hub]]:
    """Two hubs on one database, with a feed that has as many events in each partition."""
    with hub_on(url, partitions=PARTITIONS) as hub, hub_on(url) as other:
        hub.log.publish(NAME, [event({"n": n}, partition) for n in range(EVENTS) for partition in range(PARTITIONS)])
        yield [hub, other]


def positions(hub: Hub) -> dict[int, int]:
    [known] = hub.groups.measure([hub.groups.find(GROUP)])
    return {each.tranche: each.offset for each in known.standings}


def test_each_step_is_stored_for_one_of_the_racing_committers(hubs: list[Hub]) -> None:
    """A refused committer goes on from the position that it is told: all steps together are as many as the events."""

    def run(number: int) -> list[tuple[int, int]]:
        hub, taken = hubs[number % 2], []
        at: dict[int, int | None] = dict.fromkeys(range(PARTITIONS))
        while any((offset or 0) < EVENTS for offset in at.values()):
            steps = [
                PositionCommit(NAME, partition, (offset or 0) + 1, is_conditional=True, expected=offset)
                for partition, offset in at.items()
                if (offset or 0) < EVENTS
            ]
            try:
                stored = hub.groups.commit(GROUP, "processor", steps)
            except PositionMoved as moved:
                at[moved.partition] = moved.offset
            else:
                at |= {place.tranche: place.offset for place in stored}
                taken += [(place.tranche, place.offset) for place in stored]
        return taken

    taken = [step for each in together([lambda n=n: run(n) for n in range(COMMITTERS)]) for step in each]  # type: ignore[misc]

    assert sorted(taken) == [(p, n) for p in range(PARTITIONS) for n in range(1, EVENTS + 1)]
    assert positions(hubs[0]) == dict.fromkeys(range(PARTITIONS), EVENTS)


@pytest.mark.parametrize("kinds", [("spark", "spark"), ("spark", "processor")], ids=["one kind", "two kinds"])
def test_group_created_twice_at_once_is_created_once(hubs: list[Hub], kinds: tuple[str, str]) -> None:
    def make(hub: Hub, kind: str) -> str | None:
        try:
            hub.groups.commit(GROUP, kind, [PositionCommit(NAME, 0, 1, is_conditional=True)])
        except (PositionMoved, GroupKindDiffers):
            return None
        return kind

    for _ in range(5):
        made = together([lambda at=at: make(hubs[at], kinds[at]) for at in range(2)])  # type: ignore[misc]

        [winner] = filter(None, made)
        assert hubs[0].groups.find(GROUP).kind == winner
        hubs[1].groups.delete(GROUP)


def test_commits_resets_looks_and_deletions_of_a_group_never_deadlock(hubs: list[Hub]) -> None:
    chance = random.Random(11)
    orders = [chance.sample(range(PARTITIONS), PARTITIONS) for _ in range(COMMITTERS)]

    def commit(hub: Hub, order: list[int]) -> None:
        for n in range(EVENTS):
            hub.groups.commit(GROUP, "processor", [PositionCommit(NAME, partition, n) for partition in order])

    def keep(hub: Hub, order: list[int]) -> None:
        for n in range(EVENTS):
            parts = [PositionCommit(NAME, partition, n, f"part {partition % 2}") for partition in order]
            hub.groups.commit(GROUP, "processor", parts)

    def reset(hub: Hub) -> None:
        for n in range(EVENTS):
            with suppress(GroupNotFound):
                hub.groups.reset(GROUP, [GroupReset(ResetTarget("begin" if n % 2 else "end"))], None, dry_run=False)

    def look(hub: Hub) -> None:
        for _ in range(EVENTS):
            hub.groups.measure(hub.groups.list(GroupFilter(), 9))

    def forget(hub: Hub) -> None:
        for _ in range(EVENTS):
            with suppress(GroupNotFound):
                hub.groups.delete(GROUP)

    runs: list[Callable[[], None]] = []
    for number, order in enumerate(orders):
        write = commit if number < COMMITTERS / 2 else keep
        runs.append(lambda write=write, number=number, order=order: write(hubs[number % 2], order))
    together([*runs, lambda: reset(hubs[0]), lambda: look(hubs[1]), lambda: forget(hubs[1])])

    commit(hubs[0], orders[0])
    assert {positions(hubs[1])[partition] for partition in range(PARTITIONS)} <= set(range(EVENTS + 1))
