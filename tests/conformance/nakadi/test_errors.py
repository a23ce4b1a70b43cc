"""Errors: the status of each cause, and the problems of a strict hub, which tests of clients compare whole.

Causes in subscriptions are in the tests of those. A hub without authentication never answers 401.
"""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.conformance.nakadi.hubs import JANE, JSON, ON_SQLITE, block, refuses, switch
from tests.nakadi import DAY_MS, EventType, Nakadi, json_schema, problem, statistic
from tests.served import as_new

pytestmark = ON_SQLITE
Cause = Callable[[Nakadi, EventType], httpx2.Response]
EVERYBODY = {name: [JANE] for name in ("admins", "readers", "writers")}
HOUR_MS = 60 * 60 * 1000


def cursor(partition: str, offset: str) -> list[dict[str, str]]:
    return [{"partition": partition, "offset": offset}]


def stream(created: EventType, cursors: Any = None, **arguments: Any) -> httpx2.Response:
    sent = {} if cursors is None else {"X-nakadi-cursors": cursors if isinstance(cursors, str) else json.dumps(cursors)}
    return created.http.get(f"{created.path}/events", params=arguments, headers=sent)


def switched_on(nakadi: Nakadi, feature: str) -> Nakadi:
    switch(nakadi, feature)
    return nakadi


def blocked(nakadi: Nakadi, kind: str, created: EventType) -> EventType:
    block(nakadi, created.name, kind)
    return created


CAUSES: dict[str, tuple[int, Cause]] = {
    "body unreadable": (400, lambda n, _: n.http.post("/event-types", content="{", headers=JSON)),
    "wrong type": (400, lambda n, _: n.post(name=5)),
    "bad enum": (400, lambda n, _: n.post(category="whatever")),
    "bad boolean": (400, lambda _, e: e.post("/schemas", json_schema("{}"), fetch="whatever")),
    "bad integer": (400, lambda _, e: stream(e, batch_limit="whatever")),
    "limit out of range": (400, lambda _, e: e.get("/schemas", limit=0)),
    "bad version": (400, lambda _, e: e.get("/schemas/newest")),
    "corrupt gzip": (400, lambda _, e: e.hand_in("[{]", headers={"Content-Encoding": "gzip"})),
    "bad feature": (400, lambda n, _: n.http.post("/settings/features", json={"feature": "x", "enabled": True})),
    "bad blacklist": (400, lambda n, _: n.http.put("/settings/blacklist/WHATEVER/x")),
    "bad writer": (400, lambda n, _: n.http.get("/event-types?writer=jane")),
    "syntax of a batch": (400, lambda _, e: e.hand_in("[{]")),
    "header not JSON": (400, lambda _, e: stream(e, "{")),
    "two slashes": (400, lambda n, _: n.http.get(f"{str(n.http.base_url).rstrip('/')}//event-types")),
    "blocked from publishing": (403, lambda n, e: blocked(n, "PRODUCER_ET", e).hand_in({"foo": "a"})),
    "blocked from reading": (403, lambda n, e: stream(blocked(n, "CONSUMER_ET", e))),
    "deletion disabled": (403, lambda n, e: switched_on(n, "disable_event_type_deletion").http.delete(e.path)),
    "storage in use": (403, lambda n, _: n.http.delete("/storages/default")),
    "event type unknown": (404, lambda n, _: n.http.get("/event-types/nowhere")),
    "event type unknown to publish to": (404, lambda n, _: EventType(n.http, "nowhere").hand_in({})),
    "event type unknown to read": (404, lambda n, _: stream(EventType(n.http, "nowhere"))),
    "schema unknown": (404, lambda _, e: e.get("/schemas/9.9.9")),
    "partition unknown": (404, lambda _, e: e.get("/partitions/9")),
    "storage unknown": (404, lambda n, _: n.http.get("/storages/another")),
    "encoding of a GET": (406, lambda n, _: n.http.get("/event-types", headers={"Content-Encoding": "gzip"})),
    "duplicate event type": (409, lambda n, e: n.post(name=e.name)),
    "event type in use": (409, lambda n, e: n.http.delete(n.subscribe(e).path)),
    "cursor bad in a stream": (412, lambda _, e: stream(e, cursor("0", "x"))),
    "cursor beyond the end in a stream": (412, lambda _, e: stream(e, cursor("0", "7"))),
    "partition unknown in a stream": (412, lambda _, e: stream(e, cursor("7", "BEGIN"))),
    "cursor bad in an operation": (422, lambda _, e: e.post("/cursors-lag", cursor("0", "x"))),
    "cursor bad of a partition": (422, lambda _, e: e.get("/partitions/0", consumed_offset="x")),
    "bean validation": (422, lambda n, _: n.post(name=None)),
    "schema": (422, lambda n, _: n.post(schema=json_schema("{"))),
    "evolution": (422, lambda _, e: e.post("/schemas", json_schema("{}"))),
    "partition strategy": (422, lambda n, _: n.post(partition_strategy="whatever")),
    "retention": (422, lambda n, _: n.post(options={"retention_time": 0})),
    "partitions taken away": (422, lambda _, e: e.http.put(f"{e.path}/partition-count", json={"partition_count": 0})),
    "no admins": (422, lambda n, _: n.http.post("/settings/admins", json={"admins": []})),
    "update conflict": (422, lambda _, e: e.put(name="another")),
    "authorization section": (422, lambda n, _: n.post(authorization={"admins": [], "readers": [], "writers": []})),
    "stream parameters": (422, lambda _, e: stream(e, batch_limit=2, stream_limit=1)),
    "consumer tag": (422, lambda _, e: e.hand_in({"foo": "a"}, headers={"X-CONSUMER-TAG": "x"})),
    "creation switched off": (501, lambda n, _: switched_on(n, "disable_event_type_creation").post()),
    "changes switched off": (503, lambda n, _: switched_on(n, "disable_db_write_operations").post()),
}
"""The status, and the request, by its cause."""
CHANGES_SETTINGS = (403, 501, 503)
TITLES = {
    400: "Bad Request", 403: "Forbidden", 404: "Not Found", 406: "Not Acceptable", 409: "Conflict",
    412: "Precondition Failed", 501: "Not Implemented", 503: "Service Unavailable",
}  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_cause_has_its_status_and_its_title(nakadi: Nakadi, cause: str) -> None:
    """The detail shows nothing of the implementation."""
    status, ask = CAUSES[cause]
    try:
        answer = ask(nakadi, nakadi.create())
    finally:
        if status in CHANGES_SETTINGS:
            as_new(nakadi.http)
    found = problem(answer, status)
    assert found["title"] == TITLES.get(status, found["title"])
    assert not any(word in found["detail"] for word in ("Traceback", "SELECT", "sqlite", "psycopg"))
    if status == 503:
        assert int(answer.headers["Retry-After"]) > 0, "clients repeat the request"


def test_problems_of_a_strict_hub_have_no_other_members(strict: Nakadi) -> None:
    created = strict.create()
    for status, ask in CAUSES.values():
        try:
            found = problem(ask(strict, created if status != 403 else strict.create()), status)
        finally:
            if status in CHANGES_SETTINGS:
                as_new(strict.http)
        assert set(found) - {"type"} == {"title", "status", "detail"}
        assert found.get("type", "http://httpstatus.es/422") == "http://httpstatus.es/422"


def test_problems_of_a_strict_hub_have_nakadis_texts(strict: Nakadi) -> None:
    """EventTypeAT.whenUpdateETAuthObjectThen422, PartitionsControllerAT.whenListPartitionsThenTopicNotFound.

    And whenGetPartitionThenTopicNotFound, whenGetPartitionThenPartitionNotFound; CompressedEventPublishingAT.whenGet
    WithGzipEncodingThenNotAcceptable; EventStreamReadingAT.whenGetEventsWithUnknownTopicThenTopicNotFound,
    whenStreamLimitLowerThanBatchLimitThenUnprocessableEntity, …Timeout…, whenIncorrectCursorsFormatThenBadRequest,
    whenInvalidCursorsThenPreconditionFailed; BlockEventPublishingAT.whenPublishingToBlockedEventTypeThen403.
    """
    created = strict.create(schema=json_schema('{"properties":{"foo":{"type":"string"}}}'))
    denied = "Changing authorization object to `null` is not possible due to existing one"
    refuses(strict.create(authorization=EVERYBODY).put(authorization=None), 422, denied)
    for path in ("", "/partitions", "/partitions/0", "/schemas"):
        answer = EventType(strict.http, "not_existing").get(path)
        refuses(answer, 404, 'EventType "not_existing" does not exist.')
    refuses(stream(EventType(strict.http, "blah-topic")), 404, "topic not found")
    refuses(created.get("/partitions/unknown-partition"), 404, "partition not found")
    answer = strict.http.get("/event-types", headers={"Content-Encoding": "gzip"})
    refuses(answer, 406, "GET method doesn't support gzip content encoding")
    too_low = "{} can't be lower than {}"
    refuses(stream(created, batch_limit=20, stream_limit=10), 422, too_low.format("stream_limit", "batch_limit"))
    refuses(stream(created, stream_timeout=5), 422, too_low.format("stream_timeout", "batch_flush_timeout"))
    refuses(stream(created, "no JSON"), 400, "incorrect syntax of X-nakadi-cursors header")
    answer = stream(created, cursor("very_wrong_partition", "3"))
    refuses(answer, 412, "non existing partition very_wrong_partition")
    answer = created.post("/schemas", json_schema("{}"))
    refuses(answer, 422, "Invalid schema: #/properties/foo: properties cannot be removed")
    answer = blocked(strict, "PRODUCER_ET", created).hand_in({"foo": "a"})
    as_new(strict.http)
    refuses(answer, 403, "Application or event type is blocked")


def test_bean_validation_of_a_strict_hub_has_a_type_and_ends_each_line(strict: Nakadi) -> None:
    refuses(
        strict.post(name="a" * 256, annotations={"": "x"}, enrichment_strategies=None),
        422,
        'Field "name" the length of the name must be >= 1 and <= 255\n'
        'Field "enrichment_strategies" may not be null\n'
        'Field "annotations[]" Key cannot be empty\n'
        'Field "annotations[]" Key name should start and end with a letter or a digit, and have only those, "-", "_" '
        'and "." within\n',
        "http://httpstatus.es/422",
    )


def test_strict_hub_keeps_to_nakadis_limits(strict: Nakadi) -> None:
    """EventTypeAT.whenUpdateRetentionTimeThenUpdateInKafkaAndDB: at most 8 partitions, 3 hours to 4 days."""
    for asked in (8, 9, 100):
        created = strict.create(default_statistic=statistic(asked))
        assert len(created.partitions()) == 8
    assert created.http.put(f"{created.path}/partition-count", json={"partition_count": 9}).status_code == 422
    for options in (None, {}, {"retention_time": None}):
        assert strict.create(options=options).shown()["options"]["retention_time"] == 2 * DAY_MS
    for edge in (3 * HOUR_MS, 4 * DAY_MS):
        created = strict.create(options={"retention_time": edge})
        assert created.changed(options={"retention_time": 4 * DAY_MS})["options"]["retention_time"] == 4 * DAY_MS
    for beyond in (3 * HOUR_MS - 1, 4 * DAY_MS + 1, 0, -1):
        strict.refuse(options={"retention_time": beyond})
        assert created.put(options={"retention_time": beyond}).status_code == 422


def test_strict_hub_refuses_user_defined_partitions_of_undefined_event_types(strict: Nakadi) -> None:
    strict.refuse(partition_strategy="user_defined")
    strict.create(partition_strategy="user_defined", category="business")
    assert strict.create().put(partition_strategy="user_defined").status_code == 422
