"""A hub is killed in the middle of an erasure, a compaction or a sweep: the next one finishes it, and no more."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.hub.hub import Hub
from penstock.testing.factories import a_business_event, a_new_event
from penstock.testing.live_hub import live_hub
from tests.exhaustive import exhaustive
from tests.promises.processes import FORKSERVER, run_processes
from tests.promises.removing import STEP, sweep_until
from tests.promises.scene import NAME, PATIENCE_SECONDS, Follower, Remote, hub_on, rows_of, until

NOON = 1_700_000_000_000_000
KEYS = 7
EVENTS = 10 * STEP
"""Of each partition: to remove its events takes ten transactions."""
KEY, SECRET = "key-3", "Jane's street"
PARTITIONS = (0, 1)


class Removal(NamedTuple):
    """What a hub is to remove."""

    policy: str
    options: dict[str, Any]
    stays: Callable[[int], bool]
    """Whether the old event of that number stays."""


REMOVALS = {
    "erasure": Removal("delete", {}, lambda n: n % KEYS != 3),
    "compaction": Removal("compact", {}, lambda n: n >= EVENTS - KEYS),
    "retention": Removal("delete", {"retention_time": 3_600_000}, lambda n: False),  # noqa: ARG005
}


def publish(hub: Hub, numbers: range, *, has_secret: bool) -> None:
    """Publish events into both partitions, which have one of the keys in turn."""
    for partition in PARTITIONS:
        events = []
        for n in numbers:
            key = f"key-{n % KEYS}"
            metadata = {"partition": str(partition), "partition_compaction_key": key}
            of = SECRET if has_secret and key == KEY else key
            events.append(a_new_event(a_business_event(n, n=n, of=of, metadata=metadata), key=key, partition=partition))
        hub.log.publish(NAME, events)


@pytest.mark.parametrize(
    ("number", "is_committed"),
    [
        *((1, False), (4, True), (22, False)),
        *(exhaustive(*each) for each in ((1, True), (4, False), (22, True))),
        *(exhaustive(number, each) for number in (2, 3, 9, 10, 11, 12, 20, 21) for each in (True, False)),
    ],
)
@pytest.mark.parametrize("what", REMOVALS)
def test_removal_by_a_killed_hub_is_finished_by_the_next_one(
    url: str, what: str, number: int, is_committed: bool
) -> None:
    removal = REMOVALS[what]
    traits = {"cleanup_policy": removal.policy, "options": removal.options}
    if what == "compaction":
        traits |= {"category": "business", "enrichment_strategies": ["metadata_enrichment"]}
    with hub_on(url, clock=lambda: NOON, starts=False, partitions=2, **traits) as hub:
        publish(hub, range(EVENTS), has_secret=True)
        reader = Follower(hub, PARTITIONS)
        reader.page(2 * KEYS)
        cursor = reader.cursors[0]
    with hub_on(url, starts=False) as hub:
        requested = hub.erasures.request(NAME, KEY) if what == "erasure" else None
        publish(hub, range(EVENTS, EVENTS + KEYS), has_secret=False)
    stays = [*filter(removal.stays, range(EVENTS)), *range(EVENTS, EVENTS + KEYS)]
    reached = FORKSERVER.Event()

    with run_processes(sweep_until, (url, number, is_committed, reached)) as [process]:
        assert reached.wait(PATIENCE_SECONDS)
        process.kill()
        process.join()

    with hub_on(url, starts=False) as hub:
        assert requested is None or hub.erasures.find(NAME, requested.id).finished_at is None
        half = read(Follower(hub, PARTITIONS))
        assert all(set(stays) <= {*found} for found in half)
    with live_hub(url) as served, closing(Remote(served.port)) as remote:
        count = f"SELECT count(*) FROM penstock_event WHERE received_at = {NOON}"
        left = 2 * (len(stays) - KEYS)
        until(lambda: rows_of(url, count) == [(left,)], "what should go is gone")
        if requested is not None:
            until(lambda: find_report(remote, requested.id)["finished_at"], "the erasure is finished")
            assert find_report(remote, requested.id)["erased"]["events"] == 2 * (EVENTS - len(stays) + KEYS)
            assert [content for content in read_files(url) if SECRET.encode() in content] == []
        assert [[each["n"] for each in remote.all(partition, 2)] for partition in PARTITIONS] == [stays] * 2
        status, body, _ = remote.ask("GET", f"{remote.path}?n=2&cursor0={cursor}&pagesizehint=9999")
        if what == "retention":
            assert (status, json.loads(body)["lost"]) == (410, EVENTS - KEYS)
        else:
            found = [line["data"]["n"] for line in map(json.loads, body.splitlines()) if "data" in line]
            assert found == [n for n in stays if n >= KEYS]


def read(reader: Follower) -> list[list[int]]:
    """Return the numbers of the events of each partition."""
    reader.all()
    return [[each["n"] for each in reader.found[partition]] for partition in PARTITIONS]


def find_report(remote: Remote, id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(remote.ask("GET", f"/event-types/{NAME}/erasures/{id}")[1])
    return {"finished_at": None} | found


def read_files(url: str) -> list[bytes]:
    """Return what SQLite's files have; PostgreSQL's are vacuumed later."""
    path = Path(url.removeprefix("sqlite:///"))
    return [file.read_bytes() for file in path.parent.glob(f"{path.name}*")] if url.startswith("sqlite") else []
