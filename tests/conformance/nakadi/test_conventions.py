"""Conventions of all requests: JSON, headers, encodings, paths; and the routes beside event types."""

import gzip
import json
import re
from typing import Any

import httpx2
import pytest
import zstandard

from tests.conformance.nakadi.hubs import JANE, JSON, ON_SQLITE, pick
from tests.nakadi import EventType, Nakadi, json_schema, problem, statistic

pytestmark = ON_SQLITE
UNKNOWN = {"something_new": {"deep": [1, None]}}


def status(answer: httpx2.Response) -> int:
    return answer.status_code


# JSON


def test_enums_are_read_in_any_case_and_shown_in_lower_case(nakadi: Nakadi) -> None:
    members = {
        "category": "Business",
        "enrichment_strategies": ["METADATA_ENRICHMENT"],
        "compatibility_mode": "FORWARD",
        "cleanup_policy": "Delete",
        "audience": "COMPONENT-INTERNAL",
    }
    shown = nakadi.create(**members, schema={"type": "JSON_SCHEMA", "schema": "{}"}).shown()
    assert json.dumps(pick(shown, members)) == json.dumps(members).lower()
    assert shown["schema"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("field", "legal"),
    [
        ("category", ["undefined", "business", "data"]),
        ("compatibility_mode", ["none", "forward", "compatible"]),
        ("cleanup_policy", ["delete", "compact", "compact_and_delete"]),
        ("audience", ["component-internal", "external-public"]),
    ],
)
def test_unknown_enum_value_is_answered_400_with_the_legal_values(nakadi: Nakadi, field: str, legal: list[str]) -> None:
    detail = problem(nakadi.post(**{field: "whatever"}), 400)["detail"]
    assert all(each in detail for each in ["whatever", *legal])


@pytest.mark.parametrize(
    "members",
    [
        {"name": 1},
        {"category": 1},
        {"enrichment_strategies": "metadata_enrichment"},
        {"partition_key_fields": [1]},
        {"schema": {"type": "json_schema", "schema": {}}},
        {"default_statistic": statistic(1) | {"read_parallelism": "two"}},
        {"options": {"retention_time": "long"}},
        {"authorization": {"admins": JANE, "readers": [JANE], "writers": [JANE]}},
        {"annotations": []},
        {"event_owner_selector": "foo"},
    ],
    ids=str,
)
def test_value_of_a_wrong_type_is_answered_400(nakadi: Nakadi, members: dict[str, Any]) -> None:
    problem(nakadi.post(**members), 400)


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '"text"', '{"name":"a",}', b"\xff"])
def test_body_that_is_no_object_is_answered_400(nakadi: Nakadi, body: str | bytes) -> None:
    path = nakadi.create().path
    for method, at in (("POST", "/event-types"), ("PUT", path), ("POST", f"{path}/schemas")):
        problem(nakadi.http.request(method, at, content=body, headers=JSON), 400)
    problem(nakadi.http.put(f"{path}/partition-count", content=body, headers=JSON), 400)


def test_unknown_members_and_parameters_are_ignored_at_every_level(nakadi: Nakadi) -> None:
    given: dict[str, Any] = {
        "schema": json_schema('{"properties":{"foo":{}}}') | UNKNOWN,
        "default_statistic": statistic(1) | UNKNOWN,
        "options": {"retention_time": 86_400_000} | UNKNOWN,
        "authorization": {name: [JANE | UNKNOWN] for name in ("admins", "readers", "writers")} | UNKNOWN,
        "event_owner_selector": {"type": "static", "name": "a", "value": "b"} | UNKNOWN,
    }
    created = nakadi.create(**given, **UNKNOWN, created_at="2016-01-01T00:00:00.000Z", version="1")
    shown = created.changed(**UNKNOWN)
    assert (shown["options"]["retention_time"], shown["schema"]["version"]) == (86_400_000, "1.0.0")
    assert status(created.post("/schemas", json_schema('{"properties":{"foo":{}},"title":"t"}') | UNKNOWN)) == 200
    created.publish({"foo": "a"})
    cursor = {"partition": "0", "offset": "BEGIN", "event_type": "x", "cursor_token": "y"} | UNKNOWN
    pair = {"initial_cursor": cursor, "final_cursor": cursor} | UNKNOWN
    assert created.post("/cursor-distances", [pair]).json()[0]["distance"] == 0
    assert status(created.post("/shifted-cursors", [cursor | {"shift": 1}])) == 200
    assert status(created.post("/cursors-lag", [cursor])) == 200
    assert created.lines([cursor], stream_limit=1, something_new=1)[0].events == [{"foo": "a"}]
    assert status(created.http.put(f"{created.path}/partition-count", json={"partition_count": 1} | UNKNOWN)) == 204
    assert all(status(created.get(path, something_new="x")) == 200 for path in ("", "/schemas", "/partitions"))


# Paths, headers and encodings


def test_trailing_slash_of_a_path_is_ignored(nakadi: Nakadi) -> None:
    created = nakadi.create()
    for name in ("", "/schemas", "/schemas/latest", "/partitions", "/partitions/0"):
        assert created.get(f"{name}/", limit=20).json() == created.get(f"{name}/").json() == created.get(name).json()
    assert status(nakadi.http.post("/event-types/", json=nakadi.definition())) == 201
    assert status(created.hand_in({"foo": "a"}, path="/events/")) == 200
    assert status(nakadi.http.put(f"{created.path}/", json=created.shown())) == 200
    assert status(created.get("/events/", stream_limit=1, batch_flush_timeout=1, stream_timeout=1)) == 200
    assert status(nakadi.http.delete(f"{created.path}/")) == 200


@pytest.mark.parametrize("path", ["//", "//event-types", "/event-types//events", "/event-types/x//"])
def test_path_with_two_slashes_is_answered_400(nakadi: Nakadi, path: str) -> None:
    """InvalidRequestAT.whenRequestRejectedExceptionThrownThenResponseIs400."""
    problem(nakadi.http.get(f"{str(nakadi.http.base_url).rstrip('/')}{path}"), 400)


def ask(nakadi: Nakadi, headers: dict[str, str]) -> list[httpx2.Response]:
    """Return answers of all kinds to requests with *headers*."""
    http, created = nakadi.http, nakadi.create()
    return [
        http.get("/health", headers=headers),
        http.get("/event-types", headers=headers),
        http.post("/event-types", json=nakadi.definition(), headers=headers),
        http.post(f"{created.path}/events", json=[{"foo": "a"}], headers=headers),
        http.post(f"{created.path}/events", json=[{"foo": 1}], headers=headers),
        http.post(f"{created.path}/events", content="[", headers=headers),
        http.get(f"{created.path}/events?batch_flush_timeout=1&stream_timeout=1", headers=headers),
        http.get("/nowhere", headers=headers),
        http.patch("/event-types", headers=headers),
        http.get(f"{http.base_url}//", headers=headers),
        http.get("/event-types", headers=headers | {"Content-Encoding": "gzip"}),
        http.delete(created.path, headers=headers),
    ]


def test_flow_id_is_echoed_in_every_answer_without_cors_or_etag(nakadi: Nakadi) -> None:
    answers = ask(nakadi, {"X-Flow-Id": "the-flow", "Authorization": "Bearer x"})
    assert [status(each) for each in answers] == [200, 200, 201, 200, 422, 400, 200, 404, 405, 400, 406, 200]
    assert {each.headers["X-Flow-Id"] for each in answers} == {"the-flow"}
    names = {name for each in answers for name in each.headers}
    assert not [name for name in names if name.startswith("access-control-") or name == "etag"]


def test_flow_id_is_generated_for_a_request_without_one(nakadi: Nakadi) -> None:
    made = [each.headers["X-Flow-Id"] for each in ask(nakadi, {})]
    assert all(re.fullmatch(r"[0-9A-Za-z]{24}", each) for each in made)
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("media_type", ["application/json;charset=UTF-8", "text/x"])
def test_body_is_json_whatever_its_media_type(nakadi: Nakadi, media_type: str) -> None:
    sent = {"Content-Type": media_type}
    definition = nakadi.definition()
    assert status(nakadi.http.post("/event-types", content=json.dumps(definition), headers=sent)) == 201
    created = EventType(nakadi.http, definition["name"])
    created.publish('[{"foo":"é"}]'.encode(), headers=sent)
    assert created.events(1) == [{"foo": "é"}]


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


@pytest.mark.parametrize(("encoding", "encode"), [("gzip", gzip.compress), ("zstd", zstd), ("GZIP", gzip.compress)])
def test_posted_body_may_be_compressed(nakadi: Nakadi, encoding: str, encode: Any) -> None:
    """CompressedEventPublishingAT.whenSubmitCompressedBodyWithGzipEncodingThenOk."""
    created, sent = nakadi.create(), {"Content-Encoding": encoding}
    created.publish(encode(b'[{"foo":"a"}]'), headers=sent)
    assert created.events(1) == [{"foo": "a"}]
    body = encode(json.dumps(nakadi.definition()).encode())
    assert status(nakadi.http.post("/event-types", content=body, headers=sent)) == 201
    for wrong in (b"[]", body[:-3], b"x" + body):
        problem(created.hand_in(wrong, headers=sent), 400)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_content_encoding_of_other_methods_is_answered_406(nakadi: Nakadi, method: str) -> None:
    """CompressedEventPublishingAT.whenGetWithGzipEncodingThenNotAcceptable."""
    created = nakadi.create()
    for encoding in ("gzip", "zstd", "whatever"):
        answer = nakadi.http.request(method, created.path, headers={"Content-Encoding": encoding})
        assert problem(answer, 406)["detail"] == f"{method} method doesn't support {encoding} content encoding"
    created.shown()


def test_answer_is_compressed_on_request(nakadi: Nakadi) -> None:
    nakadi.create(annotations={"a": "x" * 1000})
    with nakadi.http.stream("GET", "/event-types", headers={"Accept-Encoding": "gzip"}) as answer:
        body = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(body))


def test_warning_names_broken_guidelines(nakadi: Nakadi) -> None:
    """Nakadi's warns of access to data."""
    answer = nakadi.post()
    assert answer.headers["Warning"].startswith("299 ")
    put = EventType(nakadi.http, json.loads(answer.request.content)["name"]).put()
    assert put.headers["Warning"] == answer.headers["Warning"]


# Routes beside event types


def test_health_version_and_metrics_are_served(nakadi: Nakadi) -> None:
    """HealthCheckAT.whenHealthCheckThenOk, MetricsAT.whenGetMetricsThenStructureIsOk; or for Prometheus."""
    health, metrics = nakadi.http.get("/health"), nakadi.http.get("/metrics")
    assert (status(health), health.text) == (200, "OK")
    assert health.headers["content-type"].startswith("text/plain")
    assert status(nakadi.http.get("/version")) == 200
    found = nakadi.http.get("/metrics", headers={"Accept": "application/json"}).json()
    assert found.keys() == {"version", "gauges", "counters", "histograms", "meters", "timers"}
    assert metrics.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE" in metrics.text
