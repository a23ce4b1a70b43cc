import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from penstock.testing.live_hub import live_hub
from penstock.testing.postgres import PostgresCluster
from tests.promises.scene import NAME, Follower, Remote, commit_to_outbox, hub_on, rows_of, until


def test_a_hub_answers_503_while_its_database_is_away_and_then_goes_on(
    postgres_cluster: PostgresCluster, postgres_url: str
) -> None:
    with live_hub(postgres_url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        acknowledged = []
        for n in range(3):
            assert remote.publish({"n": n})[0] == 200
            acknowledged.append(n)
        _, cursor = remote.page("_first")

        postgres_cluster.kill()
        with ThreadPoolExecutor(4) as threads:
            answers = list(
                threads.map(
                    lambda asked: _ask(hub.port, *asked),
                    [
                        ("POST", remote.path, b'{"data":{"n":"away"},"partition":0}'),
                        ("GET", f"{remote.path}?n=1&cursor0={cursor}"),
                        ("GET", f"/event-types/{NAME}/partitions"),
                        ("GET", "/health/ready"),
                    ],
                )
            )
        live = remote.ask("GET", "/health/live")[0]
        postgres_cluster.start()

        for status, body, headers in answers:
            assert (status, json.loads(body)["type"]) == (503, "urn:penstock:problem:database-unavailable")
            assert int(headers["Retry-After"]) > 0
        assert live == 200
        until(lambda: remote.publish({"n": 3})[0] == 200, "the hub has found its database again")
        assert [each["n"] for each in remote.all()] == [0, 1, 2, 3]
        assert [each["n"] for each in remote.page(cursor)[0]] == [3]
        assert remote.ask("GET", "/health/ready")[0] == 200


@pytest.mark.exhaustive
def test_after_a_longer_outage_it_is_found(postgres_cluster: PostgresCluster, postgres_url: str) -> None:
    with live_hub(postgres_url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        postgres_cluster.kill()
        away_until = time.monotonic() + 18
        while time.monotonic() < away_until:
            assert remote.publish({"n": "away"})[0] == 503
        postgres_cluster.start()

        until(lambda: remote.publish({"n": "back"})[0] == 200, "the hub has found its database again")

        assert [each["n"] for each in remote.all()] == ["back"]


def test_a_waiting_reader_is_woken_after_a_restart(postgres_cluster: PostgresCluster, postgres_url: str) -> None:
    with live_hub(postgres_url) as hub, closing(Remote(hub.port)) as remote, closing(Remote(hub.port)) as reader:
        remote.create()
        remote.publish({"n": 0})
        cursor = remote.page("_first")[1]
        found: list[Any] = []

        def wait() -> None:
            status, body, _ = reader.ask("GET", f"{reader.path}?n=1&cursor0={cursor}&wait=60")
            found.append((status, body))

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: b"penstock_waiters 1" in remote.ask("GET", "/metrics")[1], "the reader waits")
        postgres_cluster.restart()
        commit_to_outbox(postgres_url, {"n": 1})
        waiting.join()

        assert found[0][0] == 200
        assert json.loads(found[0][1].splitlines()[0])["data"] == {"n": 1}


def test_numbers_of_transactions_that_a_crash_gives_again_hide_no_outbox_row(
    postgres_cluster: PostgresCluster, postgres_url: str
) -> None:
    """A transaction that wrote nothing to disk leaves its number to another, whose rows have not been seen."""
    for setting in ("ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()"):
        _administer(postgres_cluster, setting)
    with hub_on(postgres_url, partitions=1) as hub:
        follower, given_again, n = Follower(hub), 0, 0
        while given_again < 2:  # The server may have written meanwhile what it did not have to.
            assert n < 12, "no number was given again: this test would show nothing"
            seen = _spend_numbers_and_look(postgres_url, hub)
            postgres_cluster.kill()
            postgres_cluster.start()

            commit_to_outbox(postgres_url, {"n": n})
            until(lambda: _answers(follower), "the hub has found its database again")

            given_again += rows_of(postgres_url, "SELECT txid_current()")[0][0] < seen
            n += 1
            assert [each["n"] for each in follower.found[0]] == list(range(n))
    _administer(postgres_cluster, "ALTER SYSTEM RESET ALL")
    _administer(postgres_cluster, "SELECT pg_reload_conf()")


def _administer(cluster: PostgresCluster, sql: str) -> None:
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(sql.encode())


def _ask(port: int, *asked: Any) -> tuple[int, bytes, Any]:
    with closing(Remote(port)) as remote:
        return remote.ask(*asked)


def _spend_numbers_and_look(url: str, hub: Any) -> int:
    with psycopg.connect(url) as connection:
        for _ in range(60):
            connection.execute("SELECT pg_current_xact_id()")
            connection.rollback()
    hub.settle(NAME)
    return int(hub.store._looks.seen.xmax)


def _answers(follower: Follower) -> bool:
    from penstock.errors import Unavailable

    try:
        follower.page()
    except Unavailable:
        return False
    return True
