"""Erased events are gone from feed and database within seconds, whatever reads them, and no other event is."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock.client import Client
from penstock.errors import RecordNotFound
from penstock.testing.live_hub import LiveHub, live_hub
from tests.promises.scene import NAME, Remote, rows_of, service, until

KEY = "customer-00417"
PATH = f"/event-types/{NAME}/erasures"


@pytest.fixture
def served(url: str) -> Iterator[LiveHub]:
    with live_hub(url) as served, closing(Remote(served.port)) as remote:
        remote.create(2)
        lines = [{"data": {"n": n}, "partition": n % 2, "key": KEY if n % 3 == 0 else f"k{n}"} for n in range(300)]
        status, body, _ = remote.ask("POST", f"/feeds/{NAME}", b"\n".join(json.dumps(each).encode() for each in lines))
        assert status == 200, body
        yield served


@pytest.fixture
def remote(served: LiveHub) -> Iterator[Remote]:
    with closing(Remote(served.port)) as remote:
        yield remote


def read(remote: Remote) -> list[int]:
    return sorted(each["n"] for partition in (0, 1) for each in remote.all(partition, n=2))


def erase(remote: Remote, key: str = KEY) -> str:
    status, body, _ = remote.ask("POST", PATH, json.dumps({"key": key}).encode())
    assert status == 202, body
    begun: str = json.loads(body)["id"]
    return begun


def finished(remote: Remote, id: str) -> bool:
    _, body, _ = remote.ask("GET", f"{PATH}/{id}")
    return bool(json.loads(body)["state"] == "finished")


def test_events_of_the_key_are_gone_and_the_report_says_how_many(remote: Remote, url: str) -> None:
    assert read(remote) == [*range(300)]

    begun = erase(remote)
    until(lambda: finished(remote, begun), "the erasure to finish")

    assert read(remote) == [n for n in range(300) if n % 3]
    assert rows_of(url, f"SELECT count(*) FROM penstock_event WHERE key = '{KEY}'") == [(0,)]
    assert rows_of(url, "SELECT key FROM penstock_erasure") == [(None,)]
    _, body, _ = remote.ask("GET", f"{PATH}/{begun}")
    report = json.loads(body)
    assert report["erased"] == {"events": 100, "parked_keys": 0, "rejected": 0, "dead_letters": 0}
    assert report["partitions"] == [{"partition": str(each), "before_offset": 150} for each in (0, 1)]
    assert KEY not in body.decode()
    _, listed, _ = remote.ask("GET", PATH)
    assert json.loads(listed) == {"items": [report]}


def test_readers_at_the_head_are_not_served_erased_events_that_others_have_just_read(remote: Remote) -> None:
    _, cursor = remote.page("_first", n=2, size=140)
    assert remote.page(cursor, n=2)[0]

    begun = erase(remote)
    until(lambda: finished(remote, begun), "the erasure to finish")

    until(lambda: all(each["n"] % 3 for each in remote.page(cursor, n=2)[0]), "what was just read to be forgotten")


def test_event_in_the_outbox_is_erased_and_one_that_comes_later_is_not(remote: Remote, url: str) -> None:
    with service(url) as (database, connection):
        database.insert(connection, NAME, '{"n":1000}', key=KEY, partition=0)
        connection.commit()
    begun = erase(remote)
    line = json.dumps({"data": {"n": 1001}, "partition": 0, "key": KEY}).encode()
    assert remote.ask("POST", f"/feeds/{NAME}", line)[0] == 200

    until(lambda: finished(remote, begun), "the erasure to finish")

    assert read(remote) == [*(n for n in range(300) if n % 3), 1001]


def test_client_starts_and_follows_an_erasure(served: LiveHub) -> None:
    with Client(served.url) as client:
        begun = client.erase(NAME, KEY)
        until(lambda: client.erasure(NAME, begun["id"])["state"] == "finished", "the erasure to finish")
        with pytest.raises(RecordNotFound):
            client.erasure(NAME, "unknown")


@pytest.mark.parametrize("body", ["[]", "{}", '{"key":1}', '{"key":"a","also":"b"}', '{"key":"\\u0000"}', "{"])
def test_request_without_a_key_is_refused(remote: Remote, body: str) -> None:
    assert remote.ask("POST", PATH, body.encode())[0] == 400
    assert json.loads(remote.ask("GET", PATH)[1]) == {"items": []}
