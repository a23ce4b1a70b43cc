"""Health, version and the root, also while the database is away."""

import httpx2
import pytest

import penstock
from penstock.testing.postgres import PostgresCluster
from tests.served import Served, client_of, live_hub, problem_of, until
from tests.server.test_metrics import OUTBOX, Scraped

LOOKS = {
    "/": "application/json",
    "/health": "text/plain; charset=utf-8",
    "/health/live": "application/json",
    "/health/ready": "application/json",
    "/version": "application/json",
    "/metrics": "text/plain; version=0.0.4; charset=utf-8",
    "/openapi.json": "application/json",
    "/docs": "text/html; charset=utf-8",
    "/console": "text/html; charset=utf-8",
    "/console/assets/vendor/preact.js": "text/javascript; charset=utf-8",
}


@pytest.mark.parametrize("path", LOOKS)
def test_every_page_of_operations_has_a_head(http: httpx2.Client, path: str) -> None:
    got, head = http.get(path), http.head(path)
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


@pytest.mark.usefixtures("short_database_wait")
def test_hub_lives_but_is_not_ready_while_its_database_is_away(
    postgres_cluster: PostgresCluster, migrated_postgres_url: str
) -> None:
    with live_hub(migrated_postgres_url) as hub, client_of(hub) as http:
        assert http.get("/health/ready").status_code == 200
        found = Scraped(http)
        assert [found.get(name) for name in ("penstock_database_up", *OUTBOX)] == [1, 0, 0, 0]
        postgres_cluster.stop()
        try:
            assert http.get("/health/live").status_code == 200
            answer = http.get("/health/ready")
            problem_of(answer, 503, "database-unavailable")
            assert int(answer.headers["retry-after"]) >= 1
            assert http.post("/feeds/any.type", content=b'{"data":{}}').status_code == 503
            for found in [Scraped(http) for _ in range(2)]:
                assert (found.get("penstock_database_up"), found.get("penstock_waiters")) == (0, 0)
                assert not found.samples.keys() & {*OUTBOX}
        finally:
            postgres_cluster.start()
        until(lambda: http.get("/health/ready").status_code == 200)
        until(lambda: "penstock_outbox_rows" in Scraped(http).samples)


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
