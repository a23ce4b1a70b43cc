"""A hub that keeps to Nakadi: its limits, and its problems to the last letter, as acceptance tests compare them."""

import httpx2
import pytest

from tests.nakadi import DAY_MS, EventType, Nakadi, json_schema, statistic

EVERYBODY = {name: [{"data_type": "user", "value": "jane"}] for name in ("admins", "readers", "writers")}
HOURS_MS = 60 * 60 * 1000


def assert_problem(answer: httpx2.Response, status: int, title: str, detail: str, type: str | None = None) -> None:
    assert answer.headers["content-type"].startswith("application/problem+json")
    wanted = {"title": title, "status": status, "detail": detail}
    assert (answer.status_code, answer.json()) == (status, wanted if type is None else wanted | {"type": type})


# 0.1: limits


@pytest.mark.parametrize(("asked", "count"), [(8, 8), (9, 8), (100, 8)])
def test_there_are_at_most_8_partitions(strict: Nakadi, asked: int, count: int) -> None:
    """0.1, 2.1."""
    created = strict.create(default_statistic=statistic(asked))
    assert len(created.partitions()) == count
    answer = created.http.put(f"{created.path}/partition-count", json={"partition_count": 9})
    assert answer.status_code == 422


def test_events_are_kept_for_two_days_unless_told(strict: Nakadi) -> None:
    """0.1, 2.1."""
    definition = strict.definition()
    for without in ({"options": None}, {"options": {}}, {"options": {"retention_time": None}}):
        assert strict.create(**without).shown()["options"]["retention_time"] == 2 * DAY_MS
    del definition["options"]
    assert strict.http.post("/event-types", json=definition).status_code == 201
    assert EventType(strict.http, definition["name"]).shown()["options"]["retention_time"] == 2 * DAY_MS


def test_events_are_kept_for_3_hours_to_4_days(strict: Nakadi) -> None:
    """0.1, 2.8; EventTypeAT.whenUpdateRetentionTimeThenUpdateInKafkaAndDB."""
    for least_or_most in (3 * HOURS_MS, 4 * DAY_MS):
        created = strict.create(options={"retention_time": least_or_most})
        assert created.changed(options={"retention_time": 4 * DAY_MS})["options"]["retention_time"] == 4 * DAY_MS
    for beyond in (3 * HOURS_MS - 1, 4 * DAY_MS + 1, 0, -1):
        strict.refuse(options={"retention_time": beyond})
        assert created.put(options={"retention_time": beyond}).status_code == 422


def test_undefined_event_types_are_not_user_defined(strict: Nakadi) -> None:
    """2.9; a hub that is not strict allows it: a decision."""
    strict.refuse(partition_strategy="user_defined")
    strict.create(partition_strategy="user_defined", category="business")
    created = strict.create()
    assert created.put(partition_strategy="user_defined").status_code == 422


# 6: problems


def test_an_authorization_that_becomes_null(strict: Nakadi) -> None:
    """2.8; EventTypeAT.whenUpdateETAuthObjectThen422."""
    assert_problem(
        strict.create(authorization=EVERYBODY).put(authorization=None),
        422,
        "Unprocessable Entity",
        "Changing authorization object to `null` is not possible due to existing one",
    )


def test_a_get_with_an_encoding(strict: Nakadi) -> None:
    """0.3; CompressedEventPublishingAT.whenGetWithGzipEncodingThenNotAcceptable."""
    answer = strict.http.get("/event-types", headers={"Content-Encoding": "gzip"})
    assert_problem(answer, 406, "Not Acceptable", "GET method doesn't support gzip content encoding")


@pytest.mark.parametrize("path", ["", "/partitions", "/partitions/0", "/schemas"])
def test_an_event_type_that_is_not_there(strict: Nakadi, path: str) -> None:
    """4.6, 6; PartitionsControllerAT.whenListPartitionsThenTopicNotFound, whenGetPartitionThenTopicNotFound."""
    answer = EventType(strict.http, "not_existing_event_type").get(path)
    assert_problem(answer, 404, "Not Found", 'EventType "not_existing_event_type" does not exist.')


def test_a_stream_of_an_event_type_that_is_not_there(strict: Nakadi) -> None:
    """4.2; EventStreamReadingAT.whenGetEventsWithUnknownTopicThenTopicNotFound."""
    answer = EventType(strict.http, "blah-topic").get("/events")
    assert_problem(answer, 404, "Not Found", "topic not found")


def test_a_partition_that_is_not_there(strict: Nakadi) -> None:
    """4.6; PartitionsControllerAT.whenGetPartitionThenPartitionNotFound."""
    assert_problem(strict.create().get("/partitions/unknown-partition"), 404, "Not Found", "partition not found")


def test_a_stream_whose_parameters_do_not_go_together(strict: Nakadi) -> None:
    """4.2; EventStreamReadingAT.whenStreamLimitLowerThanBatchLimitThenUnprocessableEntity, …Timeout…."""
    created = strict.create()
    assert_problem(
        created.get("/events", batch_limit=20, stream_limit=10),
        422,
        "Unprocessable Entity",
        "stream_limit can't be lower than batch_limit",
    )
    assert_problem(
        created.get("/events", stream_timeout=5),
        422,
        "Unprocessable Entity",
        "stream_timeout can't be lower than batch_flush_timeout",
    )


def test_a_stream_whose_header_cannot_be_read(strict: Nakadi) -> None:
    """4.2; EventStreamReadingAT.whenIncorrectCursorsFormatThenBadRequest."""
    with strict.create().streaming("this_is_definitely_not_a_json") as answer:
        answer.read()
    assert_problem(answer, 400, "Bad Request", "incorrect syntax of X-nakadi-cursors header")


def test_a_stream_from_a_partition_that_is_not_there(strict: Nakadi) -> None:
    """4.2; EventStreamReadingAT.whenInvalidCursorsThenPreconditionFailed."""
    with strict.create().streaming([{"partition": "very_wrong_partition", "offset": "3"}]) as answer:
        answer.read()
    assert_problem(answer, 412, "Precondition Failed", "non existing partition very_wrong_partition")


def test_fields_that_are_wrong(strict: Nakadi) -> None:
    """6: bean validation has a type of its own, and ends each line."""
    assert_problem(
        strict.post(name="a" * 256, annotations={"": "x"}, enrichment_strategies=None),
        422,
        "Unprocessable Entity",
        'Field "name" the length of the name must be >= 1 and <= 255\n'
        'Field "enrichment_strategies" may not be null\n'
        'Field "annotations[]" Key cannot be empty\n'
        'Field "annotations[]" Key name should start and end with a letter or a digit, and have only those, "-", "_" '
        'and "." within\n',
        "http://httpstatus.es/422",
    )


def test_who_is_blocked(strict: Nakadi) -> None:
    """3.2; BlockEventPublishingAT.whenPublishingToBlockedEventTypeThen403."""
    created = strict.create()
    path = f"/settings/blacklist/PRODUCER_ET/{created.name}"
    assert strict.http.put(path).status_code == 204
    answer = created.hand_in({"foo": "a"})
    assert strict.http.delete(path).status_code == 204
    assert_problem(answer, 403, "Forbidden", "Application or event type is blocked")


def test_a_schema_that_may_not_be(strict: Nakadi) -> None:
    """2.5: what is told of it is in the detail alone."""
    created = strict.create(schema=json_schema('{"properties":{"foo":{"type":"string"}}}'))
    assert_problem(
        created.post("/schemas", json_schema("{}")),
        422,
        "Unprocessable Entity",
        "Invalid schema: #/properties/foo: properties cannot be removed",
    )
