"""The media type of an answer is one that the client accepts; otherwise the answer is 406."""

import httpx2
import pytest

from penstock.server.routes import ROUTES
from penstock.server.telemetry import QUIET
from tests.served import ARROW, CLOUD_EVENTS, NDJSON, Served, problem_of

JSON = "application/json"
STREAM = "application/x-json-stream"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"

CHOSEN = [
    ("?n=1&cursor0=_first", None, NDJSON),
    ("?n=1&cursor0=_first", JAVA, NDJSON),
    ("?n=1&cursor0=_first", f"{ARROW}, */*", ARROW),
    ("?n=1&cursor0=_first", "text/html", None),
    ("/events?token=1-1&partition=0&cursor=_first", f"{ARROW};q=0.9, */*;q=0.1", ARROW),
    ("/events?token=1-1&partition=0&cursor=_first", f"{CLOUD_EVENTS}, {ARROW};q=0.9", CLOUD_EVENTS),
    ("", NDJSON, JSON),
    ("", ARROW, None),
    ("/metrics", "*/*", METRICS),
    ("/metrics", JSON, JSON),
    ("/metrics", "text/html", None),
    ("/health", "application/xml", "text/plain; charset=utf-8"),
    ("/docs", BROWSER, "text/html; charset=utf-8"),
]


@pytest.mark.parametrize(("path", "accept", "media_type"), CHOSEN)
def test_answer_has_an_accepted_media_type_or_is_406(
    feed: Served, path: str, accept: str | None, media_type: str | None
) -> None:
    """Here is an example of each route that chooses; the unit tests of encodings have the rules."""
    request = feed.http.build_request("GET", path if path in ("/metrics", "/health", "/docs") else feed.path + path)
    request.headers.pop("accept", None)
    if accept is not None:
        request.headers["accept"] = accept
    answer = feed.http.send(request)

    if media_type is None:
        problem = problem_of(answer, 406, "not-acceptable")
        assert problem["accept"] == accept
        assert problem["allowed"]
    else:
        assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)


def test_stream_is_sent_to_clients_that_accept_json(feed: Served) -> None:
    for accept in (STREAM, JSON, NDJSON):
        answer = feed.http.head(f"/event-types/{feed.name}/events", headers={"Accept": accept})
        assert (answer.status_code, answer.headers["content-type"]) == (200, STREAM)
    assert feed.http.head(f"/event-types/{feed.name}/events", headers={"Accept": "text/csv"}).status_code == 406


def test_change_is_made_although_its_answer_is_not_accepted(feed: Served) -> None:
    assert feed.post(b'{"data":{"id":1}}', {"Accept": "text/csv"}).status_code == 200
    assert feed.read().ids == [1]


def test_every_route_with_one_media_type_answers_406_to_another(http: httpx2.Client) -> None:
    """Routes with several forms choose one themselves, and are in the table above."""
    single = [each for each in ROUTES if each.method == "GET" and len(each.answer.content) == 1]
    several = {each.path for each in ROUTES if each.method == "GET" and len(each.answer.content) > 1}
    for each in single:
        if each.path not in QUIET:
            path = each.path.replace("{", "").replace("}", "")
            problem_of(http.get(path, headers={"Accept": "image/png"}), 406, "not-acceptable")
    several -= {"/console/{path}", "/docs/{path}"}  # Files are what they are.
    assert several == {"/feeds/{event_type}", "/feeds/{event_type}/events", "/metrics"}


def test_metrics_in_json_have_the_values_of_nakadis_shape(feed: Served) -> None:
    feed.publish_ids(range(3))
    answer = feed.http.get("/metrics", headers={"Accept": JSON})

    metrics = answer.json()
    assert metrics["counters"][f'penstock_events_published_total{{event_type="{feed.name}"}}'] == {"count": 3}
    assert metrics["gauges"]["penstock_waiters"] == {"value": 0}
    assert "Accept" in answer.headers["vary"].split(", ")
