"""While PostgreSQL is away requests are 503 and store nothing; the hub goes on by itself once it is back."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from penstock.errors import Unavailable
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.postgres import PostgresCluster
from tests.promises.scene import NAME, Follower, Remote, commit_to_outbox, hub_on, rows_of, until


@pytest.fixture
def served(postgres_url: str) -> Iterator[LiveHub]:
    with live_hub(postgres_url) as served:
        yield served


@pytest.fixture
def remote(served: LiveHub) -> Iterator[Remote]:
    with closing(Remote(served.port)) as remote:
        remote.create()
        yield remote


def ask(port: int, *asked: Any) -> tuple[int, bytes, Any]:
    with closing(Remote(port)) as remote:
        return remote.ask(*asked)


@pytest.mark.usefixtures("short_database_wait")
def test_requests_are_503_while_the_database_is_away_and_store_nothing(
    served: LiveHub, remote: Remote, postgres_cluster: PostgresCluster
) -> None:
    for n in range(3):
        assert remote.publish({"n": n})[0] == 200
    _, cursor = remote.page("_first")

    postgres_cluster.kill()
    asked: list[tuple[Any, ...]] = [
        ("POST", remote.path, b'{"data":{"n":"away"},"partition":0}'),
        ("GET", f"{remote.path}?n=1&cursor0={cursor}"),
        ("GET", f"/event-types/{NAME}/partitions"),
        ("GET", "/health/ready"),
    ]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda each: ask(served.port, *each), asked))
    live = remote.ask("GET", "/health/live")[0]
    postgres_cluster.start()

    for status, body, headers in answers:
        assert (status, json.loads(body)["type"]) == (503, "urn:penstock:problem:database-unavailable")
        assert int(headers["Retry-After"]) > 0
    assert live == 200
    until(lambda: remote.publish({"n": 3})[0] == 200, "the hub has its database again")
    assert [each["n"] for each in remote.all()] == [0, 1, 2, 3]
    assert [each["n"] for each in remote.page(cursor)[0]] == [3]
    assert remote.ask("GET", "/health/ready")[0] == 200


@pytest.mark.exhaustive
def test_hub_goes_on_after_a_longer_outage(remote: Remote, postgres_cluster: PostgresCluster) -> None:
    postgres_cluster.kill()
    away_until = time.monotonic() + 18
    while time.monotonic() < away_until:
        assert remote.publish({"n": "away"})[0] == 503
    postgres_cluster.start()

    until(lambda: remote.publish({"n": "back"})[0] == 200, "the hub has its database again")

    assert [each["n"] for each in remote.all()] == ["back"]


def test_waiting_reader_is_woken_after_a_restart(
    served: LiveHub, remote: Remote, postgres_cluster: PostgresCluster, postgres_url: str
) -> None:
    remote.publish({"n": 0})
    cursor = remote.page("_first")[1]
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(ask, served.port, "GET", f"{remote.path}?n=1&cursor0={cursor}&wait=60")
        until(lambda: b"penstock_waiters 1" in remote.ask("GET", "/metrics")[1], "the reader waits")
        postgres_cluster.restart()
        commit_to_outbox(postgres_url, {"n": 1})
        status, body, _ = waiting.result()

    assert (status, json.loads(body.splitlines()[0])["data"]) == (200, {"n": 1})


def test_outbox_row_is_published_though_a_crash_gives_its_transaction_number_again(
    postgres_cluster: PostgresCluster, postgres_url: str
) -> None:
    """A transaction that wrote nothing to disk leaves its number to another, whose rows no look has seen."""
    administer(postgres_cluster, "ALTER SYSTEM SET wal_writer_delay = '10s'")
    with hub_on(postgres_url, partitions=1) as hub:
        follower, repeated, n = Follower(hub), 0, 0
        while repeated < 1:  # The server may have written meanwhile without having to.
            assert n < 12, "no number was given again: this test would show nothing"
            seen = spend_numbers_and_look(postgres_url, hub)
            postgres_cluster.kill()
            postgres_cluster.start()

            commit_to_outbox(postgres_url, {"n": n})
            until(lambda: is_answered(follower), "the hub has its database again")

            repeated += rows_of(postgres_url, "SELECT txid_current()")[0][0] < seen
            n += 1
            assert [each["n"] for each in follower.found[0]] == list(range(n))
    administer(postgres_cluster, "ALTER SYSTEM RESET ALL")


def administer(cluster: PostgresCluster, sql: str) -> None:
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(sql.encode())
        connection.execute("SELECT pg_reload_conf()")


def spend_numbers_and_look(url: str, hub: Any) -> int:
    """Use up transaction numbers, and return up to which one the hub has seen them."""
    with psycopg.connect(url) as connection:
        for _ in range(60):
            connection.execute("SELECT pg_current_xact_id()")
            connection.rollback()
    hub.log.settle(NAME)
    return int(hub.store._looks.seen.xmax)


def is_answered(follower: Follower) -> bool:
    try:
        follower.page()
    except Unavailable:
        return False
    return True
