"""Hub processes, and services beside them, take turns at one SQLite file."""

from itertools import pairwise

from tests.exhaustive import examples
from tests.promises.processes import (
    FORKSERVER,
    commit_rows,
    join_all,
    publish_forever,
    publish_until,
    run_processes,
)
from tests.promises.scene import feed, hub_on, until

TURNS = 100
"""How many commits of each hub a service may have to wait for. It waits for few; the rest is for slow machines."""


def test_each_hub_process_gets_its_share_of_commits(sqlite_url: str) -> None:
    hubs, commits = 3, examples(450, 900)
    go, counts = FORKSERVER.Barrier(hubs), FORKSERVER.Array("q", [0] * hubs)
    with hub_on(sqlite_url, partitions=1) as hub:
        given = [(sqlite_url, who, go, counts, commits) for who in range(hubs)]
        with run_processes(publish_until, *given) as publishing:
            join_all(publishing)
        done = [each["by"] for each in feed(hub)]

    assert len(done) == sum(counts) + hubs
    assert min(counts) >= commits / hubs / 4, list(counts)
    longest = max(longest_absence(done, who) for who in range(hubs))
    assert longest <= commits / 3, f"one waited while the others committed {longest} times"


def longest_absence(done: list[int], who: int) -> int:
    """Return how many commits of others there were at most between two of one's own."""
    last = max(max(i for i, by in enumerate(done) if by == each) for each in set(done))
    own = [i for i, by in enumerate(done[:last]) if by == who]
    return max(after - before for before, after in pairwise(own))


def test_service_gets_its_turn_beside_saturated_hubs(sqlite_url: str) -> None:
    """The hubs always have a next group to commit; the benchmark service-latency tells how long a service waits."""
    hubs, commits = 3, examples(15, 40)
    waits, counts = FORKSERVER.Queue(), FORKSERVER.Array("q", [0] * hubs)
    with hub_on(sqlite_url, partitions=1) as hub:
        with run_processes(publish_forever, *((sqlite_url, counts, who) for who in range(hubs))):
            until(lambda: min(counts) > 20, "the hubs are busy")
            before = list(counts)
            with run_processes(commit_rows, (sqlite_url.removeprefix("sqlite:///"), commits, counts, waits)):
                passed = sorted(waits.get(timeout=300))
            beside = [after - earlier for earlier, after in zip(before, counts, strict=True)]

        assert [each["n"] for each in feed(hub) if each["by"] == "service"] == list(range(commits))

    assert sum(beside) > commits, "the hubs were not busy"
    assert passed[commits // 2] < hubs * TURNS, passed
