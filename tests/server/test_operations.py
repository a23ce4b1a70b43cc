"""Health, version, metrics and the root, also while the database is away."""

import httpx2
import pytest

import penstock
from penstock.server.metrics import ROWS_COUNTED_MAX
from penstock.testing.postgres import PostgresCluster
from tests.served import Served, client_of, create, live_hub, problem_of, until
from tests.server.outbox_rows import insert

OUTBOX = ("penstock_outbox_rows", "penstock_rejected_rows", "penstock_outbox_oldest_seconds")
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
def test_every_page_of_operations_has_a_head(either_http: httpx2.Client, path: str) -> None:
    got, head = either_http.get(path), either_http.head(path)
    assert (got.status_code, head.status_code) == (200, 200)
    assert got.headers["content-type"] == head.headers["content-type"] == LOOKS[path]
    assert got.content
    assert head.content == b""


def test_health_version_and_root_have_the_documented_members(feed: Served) -> None:
    http = feed.http
    assert http.get("/health").text == "OK"
    assert http.get("/health/live").json() == {"status": "live"}
    assert http.get("/health/ready").json() == {"status": "ready"}
    assert http.get("/version").json() == {"name": "penstock", "version": penstock.__version__}

    root = http.get("/").json()
    assert (root.pop("name"), root.pop("version")) == ("penstock", penstock.__version__)
    assert root["docs"] == "/docs"
    for path in root.values():
        assert http.get(path.format(event_type=feed.name)).status_code == 200


def test_metrics_count_published_and_served_events_and_waiters(feed: Served) -> None:
    feed.publish_ids(range(7))
    feed.read(pagesizehint=5)
    text = feed.http.get("/metrics").text
    assert f'penstock_events_published_total{{event_type="{feed.name}"}} 7.0' in text
    assert f'penstock_feed_events_served_total{{event_type="{feed.name}"}} 5.0' in text
    assert "penstock_waiters 0" in text
    assert "_created" not in text


def test_metrics_count_rows_of_the_outbox_and_rejected_rows_up_to_a_limit(sqlite_url: str) -> None:
    with live_hub(sqlite_url) as hub, client_of(hub) as http:
        feed = create(http)
        empty = gauges(http)
        assert [empty[name] for name in OUTBOX] == [0, 0, 0]
        insert(sqlite_url, [feed.name, "no.such.type", "no.such.type"])
        until(lambda: gauges(http)["penstock_rejected_rows"] == 2)
        until(lambda: gauges(http)["penstock_outbox_rows"] == 0)
        assert feed.read().ids == [0]

        insert(sqlite_url, ["no.such.type"] * (ROWS_COUNTED_MAX + 2))
        until(lambda: gauges(http)["penstock_rejected_rows"] == ROWS_COUNTED_MAX + 1)


@pytest.mark.usefixtures("short_database_wait")
def test_hub_lives_but_is_not_ready_while_its_database_is_away(
    postgres_cluster: PostgresCluster, migrated_postgres_url: str
) -> None:
    with live_hub(migrated_postgres_url) as hub, client_of(hub) as http:
        assert http.get("/health/ready").status_code == 200
        found = gauges(http)
        assert (found["penstock_database_up"], [found[name] for name in OUTBOX]) == (1, [0, 0, 0])
        postgres_cluster.stop()
        try:
            assert http.get("/health/live").status_code == 200
            answer = http.get("/health/ready")
            problem_of(answer, 503, "database-unavailable")
            assert int(answer.headers["retry-after"]) >= 1
            assert http.post("/feeds/any.type", content=b'{"data":{}}').status_code == 503
            for found in [gauges(http) for _ in range(2)]:
                assert (found["penstock_database_up"], found["penstock_waiters"]) == (0, 0)
                assert not found.keys() & {*OUTBOX}
        finally:
            postgres_cluster.start()
        until(lambda: http.get("/health/ready").status_code == 200)
        until(lambda: "penstock_outbox_rows" in gauges(http))


def gauges(http: httpx2.Client) -> dict[str, float]:
    answer = http.get("/metrics")
    assert answer.status_code == 200
    lines = (line.split(" ") for line in answer.text.splitlines() if "{" not in line and not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def test_head_of_a_page_is_answered_without_reading_or_waiting(feed: Served) -> None:
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
