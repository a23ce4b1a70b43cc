"""Health, version, metrics and the description."""

import sqlite3
from contextlib import closing

import httpx2
import pytest

import penstock
from penstock.server.metrics import ROWS_COUNTED_MAX
from penstock.testing.postgres import PostgresCluster
from tests.served import Served, client_of, create, live_hub, problem_of, until

LOOKS = {
    "/": "application/json",
    "/health": "text/plain; charset=utf-8",
    "/health/live": "application/json",
    "/health/ready": "application/json",
    "/version": "application/json",
    "/metrics": "text/plain; version=0.0.4; charset=utf-8",
    "/openapi.json": "application/json",
    "/docs": "text/html; charset=utf-8",
}


@pytest.mark.parametrize("path", LOOKS)
def test_every_look_can_be_had_and_its_head_alone(either_http: httpx2.Client, path: str) -> None:
    got, head = either_http.get(path), either_http.head(path)
    assert (got.status_code, head.status_code) == (200, 200)
    assert got.headers["content-type"] == head.headers["content-type"] == LOOKS[path]
    assert got.content
    assert head.content == b""


def test_health_is_the_word_that_nakadis_clients_expect(http: httpx2.Client) -> None:
    assert http.get("/health").text == "OK"
    assert http.get("/health/live").json() == {"status": "live"}
    assert http.get("/health/ready").json() == {"status": "ready"}
    assert http.get("/version").json() == {"name": "penstock", "version": penstock.__version__}


def test_the_root_says_who_answers_and_where_to_go_on(feed: Served) -> None:
    told = feed.http.get("/").json()
    assert (told.pop("name"), told.pop("version")) == ("penstock", penstock.__version__)
    assert told["docs"] == "/docs"
    for path in told.values():
        assert feed.http.get(path.format(event_type=feed.name)).status_code == 200


def test_metrics_count_what_was_published_and_served_and_who_waits(feed: Served) -> None:
    feed.publish_ids(range(7))
    feed.read(pagesizehint=5)
    text = feed.http.get("/metrics").text
    assert f'penstock_events_published_total{{event_type="{feed.name}"}} 7.0' in text
    assert f'penstock_feed_events_served_total{{event_type="{feed.name}"}} 5.0' in text
    assert "penstock_waiters 0" in text


def test_metrics_have_no_series_that_nobody_asked_for(feed: Served) -> None:
    feed.publish_ids(range(7))
    assert "_created" not in feed.http.get("/metrics").text


def test_metrics_count_what_lies_in_the_outbox_and_was_rejected(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    with live_hub(sqlite_url) as hub, client_of(hub) as http:
        feed = create(http)
        assert gauges(http) == {"penstock_outbox_rows": 0, "penstock_rejected_rows": 0, "penstock_waiters": 0}
        insert(path, [feed.name, "no.such.type", "no.such.type"])
        until(lambda: gauges(http)["penstock_rejected_rows"] == 2)
        until(lambda: gauges(http)["penstock_outbox_rows"] == 0)
        assert feed.read().ids == [0]


def test_metrics_stop_counting_at_a_limit(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    with live_hub(sqlite_url) as hub, client_of(hub) as http:
        insert(path, ["no.such.type"] * (ROWS_COUNTED_MAX + 2))
        until(lambda: gauges(http)["penstock_rejected_rows"] == ROWS_COUNTED_MAX + 1)


def test_metrics_are_told_while_the_database_is_away(
    postgres_cluster: PostgresCluster, migrated_postgres_url: str
) -> None:
    with live_hub(migrated_postgres_url) as hub, client_of(hub) as http:
        assert gauges(http) == {"penstock_outbox_rows": 0, "penstock_rejected_rows": 0, "penstock_waiters": 0}
        postgres_cluster.stop()
        try:
            assert [gauges(http) for _ in range(3)] == [{"penstock_waiters": 0}] * 3
        finally:
            postgres_cluster.start()
        until(lambda: "penstock_outbox_rows" in gauges(http))


def gauges(http: httpx2.Client) -> dict[str, float]:
    answer = http.get("/metrics")
    assert answer.status_code == 200
    lines = (line.split(" ") for line in answer.text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines if "{" not in name}


def insert(path: str, event_types: list[str]) -> None:
    """Commit an event to the outbox for each of *event_types*, as any language can."""
    rows = [(name, f'{{"id":{number}}}') for number, name in enumerate(event_types)]
    with closing(sqlite3.connect(path, timeout=60)) as service, service:
        service.executemany("INSERT INTO penstock_outbox (event_type, data) VALUES (?, ?)", rows)


def test_a_hub_whose_database_is_gone_lives_but_is_not_ready(
    postgres_cluster: object, migrated_postgres_url: str
) -> None:
    with live_hub(migrated_postgres_url) as hub, client_of(hub) as http:
        assert http.get("/health/ready").status_code == 200
        postgres_cluster.stop()  # type: ignore[attr-defined]
        try:
            assert http.get("/health/live").status_code == 200
            answer = http.get("/health/ready")
            problem_of(answer, 503, "database-unavailable")
            assert int(answer.headers["retry-after"]) >= 1
            answer = http.post("/feeds/any.type", content=b'{"data":{}}')
            assert answer.status_code == 503
        finally:
            postgres_cluster.start()  # type: ignore[attr-defined]
        while http.get("/health/ready").status_code != 200:
            pass


def test_the_head_of_a_page_is_told_without_reading_or_waiting(feed: Served) -> None:
    feed.publish_ids(range(3))
    served = f'penstock_feed_events_served_total{{event_type="{feed.name}"}}'
    for query in ("?n=1&cursor0=_first", "?n=1&cursor0=_last&wait=55", ""):
        got, head = feed.http.get(feed.path + query.replace("wait=55", "")), feed.http.head(feed.path + query)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
        assert "content-encoding" not in head.headers
    head = feed.http.head(f"{feed.path}/events?token=1-1&partition=0&cursor=_last&wait=55")
    assert (head.status_code, head.headers["content-type"]) == (200, "application/x-ndjson")
    assert f"{served} 3.0" in feed.http.get("/metrics").text
    problem_of(feed.http.get(f"{feed.path}?n=7&cursor0=garbage"), 400, "bad-cursor")
    assert feed.http.head(f"{feed.path}?n=7&cursor0=garbage").status_code == 400
