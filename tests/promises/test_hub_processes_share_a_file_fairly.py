from itertools import pairwise

from tests.promises.processes import SPAWN, finished, publish_until, running
from tests.promises.scene import NAME, feed, hub_on

HUBS, COMMITS = 3, 900


def test_each_hub_process_gets_its_share_of_commits(sqlite_url: str) -> None:
    go, counts = SPAWN.Barrier(HUBS), SPAWN.Array("q", [0] * HUBS)
    with hub_on(sqlite_url, partitions=1) as hub:
        with running(publish_until, *((sqlite_url, who, go, counts, COMMITS) for who in range(HUBS))) as publishing:
            finished(publishing)

        done = [each["by"] for each in feed(hub, name=NAME)]

    assert len(done) == sum(counts) + HUBS
    assert min(counts) >= COMMITS / HUBS / 4, list(counts)
    longest = max(_longest_absence(done, who) for who in range(HUBS))
    assert longest <= COMMITS / 6, f"one waited while the others committed {longest} times"


def _longest_absence(done: list[int], who: int) -> int:
    """Return how many commits of others there were at most between two of one's own."""
    last = max(max(i for i, by in enumerate(done) if by == each) for each in set(done))
    own = [i for i, by in enumerate(done[:last]) if by == who]
    return max(after - before for before, after in pairwise(own))
