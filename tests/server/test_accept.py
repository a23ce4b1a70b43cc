"""The form of an answer is one that the client accepts; a client that accepts none of them is told so."""

import httpx2
import pytest

from penstock.server.access import QUIET
from penstock.server.app import OPERATIONS
from tests.served import ARROW, NDJSON, Served, problem_of

JSON = "application/json"
STREAM = "application/x-json-stream"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"

CHOSEN = [
    ("page", None, NDJSON),
    ("page", "", NDJSON),
    ("page", "*/*", NDJSON),
    ("page", "application/*", NDJSON),
    ("page", BROWSER, NDJSON),
    ("page", JAVA, NDJSON),
    ("page", JSON, NDJSON),
    ("page", "application/jsonl", NDJSON),
    ("page", f"{JSON};q=0, */*", NDJSON),
    ("page", f"{ARROW}, */*", ARROW),
    ("page", f"application/*;q=0.5, {NDJSON};q=0", ARROW),
    ("page", "text/html", None),
    ("page", "text/event-stream", None),
    ("page", "*/*;q=0", None),
    ("page", f"{NDJSON};q=0, {ARROW};q=0", None),
    ("page", "q", None),
    ("discovery", NDJSON, JSON),
    ("discovery", ARROW, None),
    ("event type", JSON, JSON),
    ("event type", "application/problem+json, application/json;q=0.1", JSON),
    ("event type", BROWSER, JSON),
    ("event type", "application/xml", None),
    ("event type", f"*/*, {JSON};q=0", None),
    ("metrics", None, METRICS),
    ("metrics", "*/*", METRICS),
    ("metrics", PROMETHEUS, METRICS),
    ("metrics", JSON, JSON),
    ("metrics", f"{JSON};q=0.2, text/*;q=0.3", METRICS),
    ("metrics", "text/html", None),
    ("health", "application/xml", "text/plain; charset=utf-8"),
    ("docs", BROWSER, "text/html; charset=utf-8"),
    ("docs", JSON, None),
]


@pytest.mark.parametrize(("what", "accept", "form"), CHOSEN)
def test_answer_has_a_form_that_the_client_accepts_or_is_406(
    feed: Served, what: str, accept: str | None, form: str | None
) -> None:
    path = {
        "page": f"{feed.path}?n=1&cursor0=_first",
        "discovery": feed.path,
        "event type": f"/event-types/{feed.name}",
    }.get(what, f"/{what}")
    request = feed.http.build_request("GET", path)
    request.headers.pop("accept", None)
    if accept is not None:
        request.headers["accept"] = accept
    answer = feed.http.send(request)

    if form is None:
        problem = problem_of(answer, 406, "not-acceptable")
        assert problem["accept"] == accept
        assert problem["allowed"]
    else:
        assert (answer.status_code, answer.headers["content-type"]) == (200, form)


def test_streams_come_to_those_who_ask_for_json(feed: Served) -> None:
    for accept in (STREAM, JSON, NDJSON):
        answer = feed.http.head(f"/event-types/{feed.name}/events", headers={"Accept": accept})
        assert (answer.status_code, answer.headers["content-type"]) == (200, STREAM)
    assert feed.http.head(f"/event-types/{feed.name}/events", headers={"Accept": "text/csv"}).status_code == 406


def test_request_that_changes_something_is_carried_out_whatever_it_accepts(feed: Served) -> None:
    assert feed.post(b'{"data":{"id":1}}', {"Accept": "text/csv"}).status_code == 200
    assert feed.read().ids == [1]


def test_every_route_that_only_answers_in_one_form_tells_who_accepts_another(http: httpx2.Client) -> None:
    """Routes with several forms choose one themselves, and are in the table above."""
    single = [each for each in OPERATIONS if each.method == "GET" and len(each.answer.content) == 1]
    several = {each.path for each in OPERATIONS if each.method == "GET" and len(each.answer.content) > 1}
    for each in single:
        if each.path not in QUIET:
            path = each.path.replace("{", "").replace("}", "")
            problem_of(http.get(path, headers={"Accept": "image/png"}), 406, "not-acceptable")
    assert several == {"/feeds/{event_type}", "/feeds/{event_type}/events", "/metrics"}


def test_metrics_in_json_have_the_shape_of_nakadis(feed: Served) -> None:
    feed.publish_ids(range(3))
    answer = feed.http.get("/metrics", headers={"Accept": JSON})

    told = answer.json()
    assert told.keys() == {"version", "gauges", "counters", "histograms", "meters", "timers"}
    assert told["counters"][f'penstock_events_published_total{{event_type="{feed.name}"}}'] == {"count": 3}
    assert told["gauges"]["penstock_waiters"] == {"value": 0}
    assert "Accept" in answer.headers["vary"].split(", ")
