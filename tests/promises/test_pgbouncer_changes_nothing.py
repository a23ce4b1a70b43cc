"""Two hubs reach PostgreSQL through PgBouncer in transaction mode: every transaction may get another session."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.pgbouncer import SESSIONS, PgBouncer
from penstock.testing.postgres import PostgresCluster
from tests.databases import SESSION
from tests.exhaustive import examples, exhaustive
from tests.promises.scene import NAME, Remote, assert_dense, assert_outbox_is_empty, commit_to_outbox, rows_of, until

PARTITIONS = 4
EVENTS = examples(12, 100)


@pytest.fixture
def hubs(pgbouncer_url: str) -> Iterator[list[LiveHub]]:
    with ExitStack() as stack:
        yield [stack.enter_context(live_hub(pgbouncer_url)) for _ in range(2)]


@pytest.fixture
def remotes(hubs: list[LiveHub]) -> Iterator[list[Remote]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(Remote(hub.port))) for hub in hubs]


def test_events_published_in_every_way_are_there_once_and_in_order(
    hubs: list[LiveHub], remotes: list[Remote], postgres_url: str
) -> None:
    remotes[0].create(PARTITIONS)

    def publish(who: int) -> None:
        with closing(Remote(hubs[who % 2].port)) as mine:
            for n in range(EVENTS):
                while (status := mine.publish({"by": who, "n": n}, partition=n % PARTITIONS)[0]) == 503:
                    pass  # On a slow machine the outbox has a backlog.
                assert status == 200
                assert {"by": who, "n": n} in mine.all(n % PARTITIONS, PARTITIONS)  # It is read at once.

    def commit() -> None:
        for n in range(EVENTS):
            commit_to_outbox(postgres_url, {"by": "service", "n": n}, {"by": "service", "n": n + 0.5})

    with ThreadPoolExecutor(9) as threads:
        for each in [threads.submit(commit), *(threads.submit(publish, who) for who in range(8))]:
            each.result()

    for remote in remotes:
        found = [each for partition in range(PARTITIONS) for each in remote.all(partition, PARTITIONS)]
        for who in range(8):
            assert sorted(each["n"] for each in found if each["by"] == who) == list(range(EVENTS))
        moved = [each["n"] for each in remote.all(0, PARTITIONS) if each["by"] == "service"]
        assert moved == [n / 2 for n in range(2 * EVENTS)]
    assert_outbox_is_empty(postgres_url)
    assert_dense(postgres_url)
    sessions = f"""SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND application_name <> '{SESSION}'"""
    assert rows_of(postgres_url, sessions)[0][0] <= SESSIONS, "the hubs had sessions of their own: this shows nothing"


def test_waiting_reader_is_woken_by_another_hub_and_by_a_service(
    hubs: list[LiveHub], remotes: list[Remote], postgres_url: str
) -> None:
    remotes[0].create()
    ways = [
        lambda: remotes[0].publish({"n": 0}),
        lambda: remotes[1].publish({"n": 1}),
        lambda: commit_to_outbox(postgres_url, {"n": 2}),
    ]
    with closing(Remote(hubs[0].port)) as reader, ThreadPoolExecutor(1) as threads:
        cursor = "_first"
        for n, way in enumerate(ways):
            waiting = threads.submit(reader.ask, "GET", f"{reader.path}?n=1&cursor0={cursor}&wait=60")
            until(lambda: b"penstock_waiters 1" in remotes[0].ask("GET", "/metrics")[1], "the reader waits")
            way()
            status, body, _ = waiting.result()
            event, checkpoint = map(json.loads, body.splitlines())
            assert (status, event["data"]) == (200, {"n": n})
            cursor = checkpoint["cursor"]


def test_event_types_are_created_and_dropped_through_either_hub(remotes: list[Remote]) -> None:
    first, second = remotes
    for life in range(2):
        first.create(PARTITIONS)
        assert second.ask("POST", "/event-types", json.dumps(an_event_type(NAME)).encode())[0] == 409
        assert second.publish({"life": life}, partition=3)[0] == 200
        assert first.all(3, PARTITIONS) == [{"life": life}]
        asking = f"{second.path}?n={PARTITIONS}&cursor3=_last&cursorset=mine"
        assert second.ask("GET", asking)[0] == 200
        assert first.ask("GET", f"{first.path}?n={PARTITIONS}&resume=3&cursorset=mine")[0] == 200
        assert second.ask("DELETE", f"/event-types/{NAME}")[0] == 200
        assert first.ask("GET", f"/event-types/{NAME}")[0] == 404


@pytest.mark.parametrize("killed", [exhaustive("hub"), "bouncer", exhaustive("database")])
def test_acknowledged_events_stay_after_a_kill_and_the_others_go_on(
    hubs: list[LiveHub], pgbouncer: PgBouncer, postgres_cluster: PostgresCluster, postgres_url: str, killed: str
) -> None:
    with closing(Remote(hubs[0].port)) as remote:
        remote.create()
    stop = threading.Event()
    acknowledged: list[Any] = []

    def publish(who: int) -> None:
        with closing(Remote(hubs[1].port)) as mine:
            n = 0
            while not stop.is_set():
                status, said = mine.publish({"by": who, "n": n})
                assert status in (200, 503) or said["type"].endswith(":outcome-unknown"), said
                if status == 200:
                    acknowledged.append((who, n))
                n += 1

    def commit() -> None:
        for n in range(20):
            commit_to_outbox(postgres_url, {"by": "service", "n": n})

    with ThreadPoolExecutor(4) as threads:
        doing = [threads.submit(publish, who) for who in range(3)]
        try:
            until(lambda: len(acknowledged) > 50, "publishers are served")
            kill(killed, hubs[0], pgbouncer, postgres_cluster)
            commit()
            enough = len(acknowledged) + 50
            until(lambda: len(acknowledged) > enough, "they are served again")
        finally:
            stop.set()
        for each in doing:
            each.result()
    with closing(Remote(hubs[0].port)) as first, closing(Remote(hubs[1].port)) as second:
        until(lambda: first.ask("GET", f"{first.path}?n=1&cursor0=_first")[0] == 200, "the other hub is back, too")
        found = first.all()
        assert second.all() == found
    stored = [(each["by"], each["n"]) for each in found]
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored)
    assert [n for by, n in stored if by == "service"] == list(range(20))
    assert_dense(postgres_url)


def kill(which: str, hub: LiveHub, bouncer: PgBouncer, cluster: PostgresCluster) -> None:
    """Kill one of the three, and start it again."""
    each: Any = {"hub": hub, "bouncer": bouncer, "database": cluster}[which]
    each.kill()
    each.start()
