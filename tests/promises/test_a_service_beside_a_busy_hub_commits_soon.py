from tests.promises.processes import SPAWN, commit_rows, publish_forever, running
from tests.promises.scene import feed, hub_on, until

HUBS, COMMITS = 4, 40
TURNS = 100
"""How many commits of each hub a service may have to wait for. It waits for few; what is left is for slow machines."""


def test_service_gets_its_turn_beside_saturated_hubs(sqlite_url: str) -> None:
    """Four hub processes on one file always have a next group to commit; a service beside them commits its rows.

    How many milliseconds it waits is the figure service-latency of the benchmarks.
    """
    waits, counts = SPAWN.Queue(), SPAWN.Array("q", [0] * HUBS)
    with hub_on(sqlite_url, partitions=1) as hub:
        with running(publish_forever, *((sqlite_url, counts, who) for who in range(HUBS))):
            until(lambda: min(counts) > 20, "the hubs are busy")
            before = list(counts)
            with running(commit_rows, (sqlite_url.removeprefix("sqlite:///"), COMMITS, counts, waits)):
                passed = sorted(waits.get(timeout=300))
            beside = [after - earlier for earlier, after in zip(before, counts, strict=True)]

        assert [each["n"] for each in feed(hub) if each["by"] == "service"] == list(range(COMMITS))

    assert sum(beside) > COMMITS, "the hubs were not busy"
    assert passed[COMMITS // 2] < HUBS * TURNS, passed
