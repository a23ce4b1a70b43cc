"""What holds everywhere: JSON, headers, encodings, paths; and the routes that clients ask for beside the events."""

import gzip
import json
import re
from typing import Any

import httpx2
import pytest
import zstandard

from tests.nakadi import EventType, Nakadi, business, json_schema, problem, statistic

UNKNOWN = {"something_new": {"deep": [1, None]}}
SOMEBODY = {"data_type": "user", "value": "jane"}


def status(answer: httpx2.Response) -> int:
    return answer.status_code


# 0.2: JSON


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"category": "UNDEFINED"}, {"category": "undefined"}),
        ({"category": "Business", "enrichment_strategies": ["metadata_enrichment"]}, {"category": "business"}),
        ({"compatibility_mode": "FORWARD"}, {"compatibility_mode": "forward"}),
        ({"cleanup_policy": "Delete"}, {"cleanup_policy": "delete"}),
        ({"audience": "COMPONENT-INTERNAL"}, {"audience": "component-internal"}),
    ],
    ids=str,
)
def test_enums_are_read_in_any_case_and_written_in_lower_case(
    nakadi: Nakadi, given: dict[str, Any], shown: dict[str, str]
) -> None:
    """0.2."""
    assert nakadi.create(**given).shown().items() >= shown.items()


def test_the_type_of_a_schema_is_an_enum(nakadi: Nakadi) -> None:
    """0.2."""
    assert nakadi.create(schema={"type": "JSON_SCHEMA", "schema": "{}"}).shown()["schema"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("field", "legal"),
    [
        ("category", ["undefined", "business", "data"]),
        ("compatibility_mode", ["none", "forward", "compatible"]),
        ("cleanup_policy", ["delete", "compact", "compact_and_delete"]),
        ("audience", ["component-internal", "external-public"]),
    ],
)
def test_a_bad_enum_is_answered_400_with_those_that_are_legal(nakadi: Nakadi, field: str, legal: list[str]) -> None:
    """0.2, 6: the value is named, too."""
    detail = problem(nakadi.post(**{field: "whatever"}), 400)["detail"]
    assert "whatever" in detail
    assert all(each in detail for each in legal)


@pytest.mark.parametrize(
    "members",
    [
        {"name": 1},
        {"owning_application": ["a"]},
        {"category": 1},
        {"enrichment_strategies": "metadata_enrichment"},
        {"partition_key_fields": "foo"},
        {"partition_key_fields": [1]},
        {"schema": "{}"},
        {"schema": {"type": "json_schema", "schema": {}}},
        {"default_statistic": 1},
        {"default_statistic": statistic(1) | {"read_parallelism": "two"}},
        {"options": []},
        {"options": {"retention_time": "long"}},
        {"authorization": []},
        {"authorization": {"admins": SOMEBODY, "readers": [SOMEBODY], "writers": [SOMEBODY]}},
        {"annotations": []},
        {"labels": "a"},
        {"event_owner_selector": "foo"},
    ],
    ids=str,
)
def test_a_value_of_a_wrong_type_is_answered_400(nakadi: Nakadi, members: dict[str, Any]) -> None:
    """0.2."""
    problem(nakadi.post(**members), 400)


@pytest.mark.parametrize("body", ["", "{", "[]", "1", "null", '"text"', '{"name":"a",}', b"\xff"])
def test_a_body_that_is_no_object_is_answered_400(nakadi: Nakadi, body: str | bytes) -> None:
    """0.2."""
    created = nakadi.create()
    sent = {"Content-Type": "application/json"}
    problem(nakadi.http.post("/event-types", content=body, headers=sent), 400)
    problem(nakadi.http.put(created.path, content=body, headers=sent), 400)
    problem(nakadi.http.post(f"{created.path}/schemas", content=body, headers=sent), 400)
    problem(nakadi.http.put(f"{created.path}/partition-count", content=body, headers=sent), 400)


def test_members_that_are_not_known_are_ignored_at_every_level(nakadi: Nakadi) -> None:
    """0.2: of an event type."""
    somebody = SOMEBODY | UNKNOWN
    given: dict[str, Any] = {
        "schema": json_schema("{}") | UNKNOWN,
        "default_statistic": statistic(1) | UNKNOWN,
        "options": {"retention_time": 86_400_000} | UNKNOWN,
        "authorization": {name: [somebody] for name in ("admins", "readers", "writers")} | UNKNOWN,
        "event_owner_selector": {"type": "static", "name": "a", "value": "b"} | UNKNOWN,
    }
    created = nakadi.create(**given, **UNKNOWN, created_at="2016-01-01T00:00:00.000Z", version="1")
    shown = created.changed(**UNKNOWN)
    assert shown["options"]["retention_time"] == 86_400_000
    assert shown["schema"]["version"] == "1.0.0"
    assert created.post("/schemas", json_schema('{"title":"t"}') | UNKNOWN).status_code == 200


def test_members_that_are_not_known_are_ignored_in_cursors(nakadi: Nakadi) -> None:
    """0.2."""
    created = nakadi.create()
    created.publish({"foo": "a"})
    cursor = {"partition": "0", "offset": "BEGIN", "event_type": "x", "cursor_token": "y"} | UNKNOWN
    pair = {"initial_cursor": cursor, "final_cursor": cursor} | UNKNOWN
    assert created.post("/cursor-distances", [pair]).json()[0]["distance"] == 0
    assert status(created.post("/shifted-cursors", [cursor | {"shift": 1}])) == 200
    assert status(created.post("/cursors-lag", [cursor])) == 200
    assert created.lines([cursor], stream_limit=1)[0].events == [{"foo": "a"}]
    assert status(created.http.put(f"{created.path}/partition-count", json={"partition_count": 1} | UNKNOWN)) == 204


def test_parameters_that_are_not_known_are_ignored(nakadi: Nakadi) -> None:
    """0.2."""
    created = nakadi.create()
    created.publish({"foo": "a"})
    assert created.lines(created.begin(), stream_limit=1, something_new=1)[0].events == [{"foo": "a"}]
    assert all(status(created.get(path, something_new="x")) == 200 for path in ("", "/schemas", "/partitions"))


@pytest.mark.parametrize("name", ["", "/schemas", "/schemas/latest", "/partitions", "/partitions/0"])
def test_a_slash_at_the_end_says_nothing(nakadi: Nakadi, name: str) -> None:
    """0.2."""
    created = nakadi.create()
    found = created.get(name)
    assert (status(created.get(f"{name}/")), created.get(f"{name}/").json()) == (200, found.json())
    assert created.get(f"{name}/", limit=20).json() == found.json()


def test_a_slash_at_the_end_says_nothing_of_what_is_posted(nakadi: Nakadi) -> None:
    """0.2."""
    created = nakadi.create()
    assert status(nakadi.http.post("/event-types/", json=nakadi.definition())) == 201
    assert status(created.hand_in({"foo": "a"}, path="/events/")) == 200
    assert status(nakadi.http.put(f"{created.path}/", json=created.shown())) == 200
    assert created.get("/events/", stream_limit=1, batch_flush_timeout=1, stream_timeout=1).status_code == 200
    assert status(nakadi.http.delete(f"{created.path}/")) == 200


@pytest.mark.parametrize("media_type", ["application/json;charset=UTF-8", "application/json; charset=utf-8", "text/x"])
def test_a_charset_may_be_named(nakadi: Nakadi, media_type: str) -> None:
    """10."""
    sent = {"Content-Type": media_type}
    definition = nakadi.definition()
    assert status(nakadi.http.post("/event-types", content=json.dumps(definition), headers=sent)) == 201
    created = EventType(nakadi.http, definition["name"])
    created.publish('[{"foo":"é"}]'.encode(), headers=sent)
    assert created.events(1) == [{"foo": "é"}]


# 0.3: headers and transport


def asked(nakadi: Nakadi, headers: dict[str, str]) -> list[httpx2.Response]:
    """Answers of all kinds to requests with *headers*."""
    http, created = nakadi.http, nakadi.create()
    return [
        http.get("/health", headers=headers),
        http.get("/event-types", headers=headers),
        http.post("/event-types", json=nakadi.definition(), headers=headers),
        http.post(f"{created.path}/events", json=[{"foo": "a"}], headers=headers),
        http.post(f"{created.path}/events", json=[{"foo": 1}], headers=headers),
        http.post(f"{created.path}/events", content="[", headers=headers),
        http.get(f"{created.path}/events?batch_flush_timeout=1&stream_timeout=1", headers=headers),
        http.get("/event-types/nowhere", headers=headers),
        http.get("/nowhere", headers=headers),
        http.patch("/event-types", headers=headers),
        http.get(f"{http.base_url}//", headers=headers),
        http.get("/event-types", headers=headers | {"Content-Encoding": "gzip"}),
        http.delete(created.path, headers=headers),
    ]


def test_a_flow_id_is_echoed_in_every_answer(nakadi: Nakadi) -> None:
    """0.3."""
    answers = asked(nakadi, {"X-Flow-Id": "the-flow"})
    assert [status(each) for each in answers] == [200, 200, 201, 200, 422, 400, 200, 404, 404, 405, 400, 406, 200]
    assert {each.headers["X-Flow-Id"] for each in answers} == {"the-flow"}


def test_a_flow_id_is_made_where_none_came(nakadi: Nakadi) -> None:
    """0.3: 24 letters and digits, others each time."""
    made = [each.headers["X-Flow-Id"] for each in asked(nakadi, {})]
    assert all(re.fullmatch(r"[0-9A-Za-z]{24}", each) for each in made)
    assert len(set(made)) == len(made)


def test_who_may_ask_from_where_and_what_may_be_kept_is_not_told(nakadi: Nakadi) -> None:
    """0.3: no CORS, no ETag."""
    for answer in asked(nakadi, {"Origin": "https://example.org", "Authorization": "Bearer x", "User-Agent": "me"}):
        assert not [name for name in answer.headers if name.startswith("access-control-") or name == "etag"]


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


@pytest.mark.parametrize(("encoding", "encode"), [("gzip", gzip.compress), ("zstd", zstd), ("GZIP", gzip.compress)])
def test_a_body_may_be_compressed(nakadi: Nakadi, encoding: str, encode: Any) -> None:
    """0.3; CompressedEventPublishingAT.whenSubmitCompressedBodyWithGzipEncodingThenOk."""
    created = nakadi.create()
    created.publish(encode(b'[{"foo":"a"}]'), headers={"Content-Encoding": encoding})
    assert created.events(1) == [{"foo": "a"}]
    body = encode(json.dumps(nakadi.definition()).encode())
    assert status(nakadi.http.post("/event-types", content=body, headers={"Content-Encoding": encoding})) == 201


def test_a_corrupt_body_is_answered_400(nakadi: Nakadi) -> None:
    """0.3, 6."""
    created = nakadi.create()
    whole = gzip.compress(b'[{"foo":"a"}]')
    for body in (b"[]", whole[:-3], b"x" + whole):
        problem(created.hand_in(body, headers={"Content-Encoding": "gzip"}), 400)


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "whatever"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_no_other_method_takes_a_compressed_body(nakadi: Nakadi, method: str, encoding: str) -> None:
    """0.3; CompressedEventPublishingAT.whenGetWithGzipEncodingThenNotAcceptable."""
    created = nakadi.create()
    answer = nakadi.http.request(method, created.path, headers={"Content-Encoding": encoding})
    assert problem(answer, 406)["detail"] == f"{method} method doesn't support {encoding} content encoding"
    created.shown()


def test_an_answer_is_compressed_where_that_is_asked_for(nakadi: Nakadi) -> None:
    """0.3."""
    nakadi.create(annotations={"a": "x" * 1000})
    with nakadi.http.stream("GET", "/event-types", headers={"Accept-Encoding": "gzip"}) as answer:
        body = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(body))


@pytest.mark.parametrize("path", ["//", "//event-types", "/event-types//events", "/event-types/x//"])
def test_a_path_with_two_slashes_is_answered_400(nakadi: Nakadi, path: str) -> None:
    """0.3; InvalidRequestAT.whenRequestRejectedExceptionThrownThenResponseIs400."""
    problem(nakadi.http.get(f"{str(nakadi.http.base_url).rstrip('/')}{path}"), 400)


def test_a_warning_says_what_it_warns_of(nakadi: Nakadi) -> None:
    """0.3; a decision: it tells of guidelines that are not kept, where Nakadi's tells of access to data."""
    answer = nakadi.post()
    assert answer.headers["Warning"].startswith("299 ")
    put = EventType(nakadi.http, json.loads(answer.request.content)["name"]).put()
    assert put.headers["Warning"] == answer.headers["Warning"]


def test_what_was_put_is_shown_at_once(nakadi: Nakadi) -> None:
    """0.3: where Nakadi's tests have to ask for up to 5 s."""
    created = nakadi.create(category="business")
    for number in range(5):
        schema = {"properties": {"foo": {"type": "string"}, **{f"p{n}": {} for n in range(number)}}}
        created.changed(schema=json_schema(schema))
        created.publish(business(**{f"p{n}": 1 for n in range(number)}))
        assert created.events(number + 1)[-1]["metadata"]["version"] == created.shown()["schema"]["version"]


# 1.1


def test_the_health_is_told_in_plain_text(nakadi: Nakadi) -> None:
    """1.1; HealthCheckAT.whenHealthCheckThenOk."""
    answer = nakadi.http.get("/health")
    assert (status(answer), answer.text) == (200, "OK")
    assert answer.headers["content-type"].startswith("text/plain")


def test_metrics_come_as_json_or_for_prometheus(nakadi: Nakadi) -> None:
    """1.1; MetricsAT.whenGetMetricsThenStructureIsOk; a decision: Prometheus's text unless JSON is preferred."""
    told = nakadi.http.get("/metrics", headers={"Accept": "application/json"}).json()
    assert told.keys() == {"version", "gauges", "counters", "histograms", "meters", "timers"}
    answer = nakadi.http.get("/metrics")
    assert status(answer) == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE" in answer.text


def test_the_version_is_told(nakadi: Nakadi) -> None:
    """1.1."""
    assert status(nakadi.http.get("/version")) == 200
