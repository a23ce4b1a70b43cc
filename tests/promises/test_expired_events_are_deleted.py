"""Events that have expired are not shown from one moment on, are deleted, and no other event is."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.promises.scene import NAME, Remote, rows_of, until

PATH = f"/event-types/{NAME}"


@pytest.fixture
def served(url: str) -> Iterator[LiveHub]:
    with live_hub(url) as served:
        yield served


@pytest.fixture
def remote(served: LiveHub) -> Iterator[Remote]:
    with closing(Remote(served.port)) as remote:
        remote.create(2)
        yield remote


def change_options(remote: Remote, **options: Any) -> None:
    """Replace the options of the event type."""
    _, body, _ = remote.ask("GET", PATH)
    status, answer, _ = remote.ask("PUT", PATH, json.dumps(json.loads(body) | {"options": options}).encode())
    assert status == 200, answer


def read(remote: Remote, cursor: str = "_first") -> list[int]:
    status, body, _ = remote.ask("GET", f"/feeds/{NAME}?n=2&cursor0={cursor}&cursor1=_first&pagesizehint=9999")
    assert status == 200, body
    return [line["data"]["n"] for line in map(json.loads, body.splitlines()) if "data" in line]


def test_expired_events_are_gone_from_feed_and_database_and_new_ones_stay(
    served: LiveHub, remote: Remote, url: str
) -> None:
    for partition in (0, 1):
        assert remote.publish(*({"n": n} for n in range(7_000)), partition=partition)[0] == 200
    assert len(read(remote)) == 9_999

    change_options(remote, retention_time=1)
    until(lambda: rows_of(url, "SELECT count(*) FROM penstock_event") == [(0,)], "the events to be deleted")
    assert read(remote) == []
    change_options(remote, retention_time=3_600_000)
    assert remote.publish({"n": 8}, partition=0)[0] == 200

    assert read(remote) == [8]
    assert rows_of(url, 'SELECT "offset" FROM penstock_event') == [(7_000,)]


def test_events_beyond_the_size_are_deleted_and_readers_behind_are_told_how_many(
    served: LiveHub, remote: Remote, url: str
) -> None:
    assert remote.publish(*({"n": n} for n in range(100)), partition=0)[0] == 200
    _, cursor = remote.page("_first", n=2, size=10)
    [(size,)] = rows_of(url, 'SELECT sum(length(data)) FROM penstock_event WHERE "offset" >= 60')

    change_options(remote, retention_bytes=int(size))

    until(lambda: rows_of(url, "SELECT count(*) FROM penstock_event") == [(40,)], "the events to be deleted")
    assert read(remote) == [*range(60, 100)]
    status, body, _ = remote.ask("GET", f"/feeds/{NAME}?n=2&cursor0={cursor}")
    assert (status, json.loads(body)["lost"]) == (410, 50)


def test_events_wait_for_a_group_until_it_has_committed_them(served: LiveHub, remote: Remote, url: str) -> None:
    group = "/groups/billing/positions"
    assert remote.publish(*({"n": n} for n in range(10)), partition=0)[0] == 200
    wait = {"groups": ["billing"], "retention_time": 3_600_000}
    change_options(remote, retention_time=1, retention_wait=wait)
    commits = [{"event_type": NAME, "partition": p, "offset": offset} for p, offset in ((0, 4), (1, 0))]
    status, answer, _ = remote.ask("POST", group, json.dumps({"kind": "processor", "items": commits}).encode())
    assert status == 200, answer

    change_options(remote, retention_time=2, retention_wait=wait)

    until(lambda: rows_of(url, "SELECT count(*) FROM penstock_event") == [(6,)], "the events to be deleted")
    assert read(remote) == [*range(4, 10)]
