from tests.promises.processes import SPAWN, commit_rows, publish_forever, running
from tests.promises.scene import feed, hub_on, until

HUBS, COMMITS = 4, 200


def test_a_service_commits_within_half_a_second_beside_saturated_hubs(sqlite_url: str) -> None:
    """Four hub processes on one file always have a next group to commit; a service beside them commits its rows."""
    waits, counts = SPAWN.Queue(), SPAWN.Array("q", [0] * HUBS)
    with hub_on(sqlite_url, partitions=1) as hub:
        with running(publish_forever, *((sqlite_url, counts, who) for who in range(HUBS))):
            until(lambda: min(counts) > 20, "the hubs are busy")
            before = list(counts)
            with running(commit_rows, (sqlite_url.removeprefix("sqlite:///"), COMMITS, counts, waits)):
                taken = sorted(waits.get(timeout=100))
            beside = [after - earlier for earlier, after in zip(before, counts, strict=True)]

        assert [each["n"] for each in feed(hub) if each["by"] == "service"] == list(range(COMMITS))

    median, late, last = taken[COMMITS // 2], taken[COMMITS * 99 // 100], taken[-1]
    assert sum(beside) > COMMITS, "the hubs were not busy"
    assert late < 0.5, f"median {median:.3f} s, 99th percentile {late:.3f} s, last {last:.3f} s"
