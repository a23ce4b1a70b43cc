"""Of two commits of a position that expect the same one is stored."""

from collections.abc import Iterator

import pytest

from penstock.core.groups.groups import PositionCommit
from penstock.errors import GroupKindDiffers, PositionMoved
from penstock.hub.hub import Hub
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
