"""A hub that is stopped while its database is blocked: its answer to each publish is true afterwards."""

import json
import threading
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import HubUnavailable
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub, live_hub
from tests.failing import has_code
from tests.promises.cut_line import HELD, CutLine
from tests.promises.scene import NAME, commit_to_outbox, create, event, feed, hub_on, rows_of, until
from tests.served import PROBLEM, client_of
from tests.served import create as create_feed
from tests.store_contract import database_at

BLOCKING = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "SELECT id FROM penstock_partition FOR UPDATE"}


@contextmanager
def block(url: str) -> Iterator[Any]:
    """Hold what every append needs in a transaction of another process, until that is rolled back."""
    with closing(database_at(url).connect()) as connection:
        connection.execute(BLOCKING[url.partition(":")[0]])
        yield connection
        connection.rollback()


@pytest.mark.usefixtures("short_stop")
def test_publish_answered_hub_stopped_is_not_stored_once_the_database_is_free(
    migrated_url: str, tmp_path: Path
) -> None:
    with live_hub(migrated_url, log=tmp_path / "log") as hub, client_of(hub) as http, ThreadPoolExecutor(1) as pool:
        feed = create_feed(http)
        feed.publish_ids([0])
        with block(migrated_url) as holder:
            publishes = [
                send_request(hub, "POST", feed.path, b'{"data":{"id":%d}}\n' % number) for number in range(1, 6)
            ]
            drop = send_request(hub, "DELETE", f"/event-types/{feed.name}")
            http.get("/health/live")  # It has read what came before.
            stopping = pool.submit(hub.stop)
            codes = [problem_code(publish) for publish in publishes]
            holder.rollback()
            assert stopping.result() == 0
            drop_code = code_or_none(drop)

    assert codes == ["hub-stopped"] * 5
    assert drop_code in ("outcome-unknown", None)  # None: it was carried out after all.
    assert rows_of(migrated_url, "SELECT count(*) FROM penstock_event") == [(1,)]


@pytest.mark.usefixtures("short_stop")
def test_publish_whose_commit_is_under_way_is_answered_outcome_unknown(migrated_postgres_url: str) -> None:
    with CutLine(migrated_postgres_url) as line, live_hub(line.url) as hub, client_of(hub) as http:
        feed = create_feed(http)
        feed.publish_ids([0])
        cut = line.cut(HELD, b"INSERT INTO penstock_event ")
        begun = send_request(hub, "POST", feed.path, b'{"data":{"id":1}}\n')
        assert cut.made.wait(300)
        queued = [send_request(hub, "POST", feed.path, b'{"data":{"id":%d}}\n' % number) for number in (2, 3)]
        http.get("/health/live")
        assert hub.stop() == 0

        assert problem_code(begun) == "outcome-unknown"
        assert [problem_code(each) for each in queued] == ["hub-stopped"] * 2
        cut.let_go.set()
        until(
            lambda: rows_of(migrated_postgres_url, "SELECT count(*) FROM penstock_event") == [(2,)],
            "the commit under way is done",
        )

    with live_hub(migrated_postgres_url) as hub, client_of(hub) as http:
        found = http.get(f"/feeds/{feed.name}", params={"n": 1, "cursor0": "_first"})
        assert [json.loads(each)["data"]["id"] for each in found.text.splitlines()[:-1]] == [0, 1]


@pytest.mark.usefixtures("short_stop")
def test_rows_of_the_outbox_stay_there_and_their_reader_is_told_to_retry(migrated_postgres_url: str) -> None:
    with live_hub(migrated_postgres_url) as hub, client_of(hub) as http:
        feed = create_feed(http)
        feed.publish_ids([0])
        with block(migrated_postgres_url):
            commit_to_outbox(migrated_postgres_url, {"id": 1}, name=feed.name)
            reading = send_request(hub, "GET", f"{feed.path}?n=1&cursor0=_first")
            http.get("/health/live")
            assert hub.stop() == 0
            assert problem_code(reading) in ("hub-stopped", "outbox-backlog")
    with live_hub(migrated_postgres_url) as hub, client_of(hub) as http:
        found = http.get(f"/feeds/{feed.name}", params={"n": 1, "cursor0": "_first"})
        assert [json.loads(each)["data"]["id"] for each in found.text.splitlines()[:-1]] == [0, 1]


def test_hub_that_stops_in_its_process_stores_nothing_of_refused_publishes(migrated_url: str) -> None:
    """In a process that lives on, the transaction that was held up comes to its turn later: it must write nothing."""
    of_others = set(threading.enumerate())
    with hub_on(migrated_url, partitions=1) as hub:
        create(hub, "other.one")
        hub.log.publish(NAME, [event({"n": 0})])
        with block(migrated_url) as holder:
            told = [hub.log.submit(name, [event({"n": n})]) for n in (1, 2, 3) for name in (NAME, "other.one")]
            hub.stop(0.5)
            said = [each.exception(timeout=0) for each in told]
            holder.rollback()
        until(lambda: "penstock-committer" not in begun_since(of_others), "the committer ended")

    assert [each.code for each in said if isinstance(each, HubUnavailable)] == ["hub-stopped"] * 6
    with hub_on(migrated_url) as hub:
        assert [feed(hub, name=name) for name in (NAME, "other.one")] == [[{"n": 0}], []]


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_second_stop_releases_the_database_once_it_is_free(sqlite_url: str, seconds: float) -> None:
    with hub_on(sqlite_url, partitions=1) as hub:
        with block(sqlite_url):
            told = hub.log.submit(NAME, [event({"n": 0})])
            hub.stop(seconds)
            assert has_code("hub-stopped")(told.exception(timeout=0))
        hub.stop()
    with closing(open_store(sqlite_url)) as store, store.write() as tx:
        assert not tx.outbox.find_waiting(None)


def begun_since(before: Collection[threading.Thread]) -> Sequence[str]:
    """Return the names of the threads that there were not *before*."""
    return [each.name for each in threading.enumerate() if each not in before]


def send_request(hub: LiveHub, method: str, path: str, body: bytes = b"") -> HTTPConnection:
    """Send a request, and leave the answer for later."""
    connection = HTTPConnection("127.0.0.1", hub.port, timeout=300)
    connection.request(method, path, body)
    return connection


def problem_code(asking: HTTPConnection) -> str:
    """Read the problem that is the answer, and return its code."""
    code = code_or_none(asking)
    assert code is not None
    return code


def code_or_none(asking: HTTPConnection) -> str | None:
    """Read the answer and return the code of its problem, None where it is a success."""
    with closing(asking), asking.getresponse() as answer:
        if answer.status == 200:
            return None
        assert answer.headers["content-type"] == PROBLEM, answer.read()
        if answer.status == 503:
            assert int(answer.headers["retry-after"]) > 0
        return str(json.loads(answer.read())["type"]).rpartition(":")[2]
