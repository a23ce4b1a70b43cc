"""Hostile input for subscriptions: refused with its cause on both databases, and never a defect of the hub."""

import json
import uuid
from typing import Any

import pytest

from tests.conformance.nakadi.hubs import JANE, JSON, ON_SQLITE, short
from tests.nakadi import Nakadi, offset, problem
from tests.subscribing import STREAM_ID, definition, filled, subscribe

NUL = {"data_type": "user", "value": "a\0"}


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ({"owning_application": "a\0"}, 422),
        ({"consumer_group": "a\0"}, 422),
        ({"annotations": {"a": "\0"}}, 422),
        ({"unknown": {"\0": 1}}, 422),
        ({"authorization": {"admins": [JANE], "readers": [NUL]}}, 422),
        ({"initial_cursors": [{"event_type": "\0", "partition": "\0", "offset": "\0"}]}, 422),
        ({"event_types": ["\0"]}, 422),
        ({"event_types": ["\ud800"]}, 400),
        ({"unknown": "\ud800"}, 400),
    ],
    ids=ascii,
)
def test_text_that_a_database_cannot_store_is_refused(nakadi: Nakadi, members: dict[str, Any], status: int) -> None:
    created = nakadi.create()
    body = json.dumps(definition(created) | members)
    problem(nakadi.http.post("/subscriptions", content=body, headers=JSON), status)
    subscription = subscribe(created)
    body = json.dumps(subscription.get() | members)
    problem(nakadi.http.put(subscription.path, content=body, headers=JSON), status)


@pytest.mark.parametrize(
    "query",
    [
        "owning_application=%00",
        "owning_application=",
        "event_type=",
        "reader=",
        "event_type=%00",
        "event_type=a,%ff",
        "event_type=,,",
        "reader=user:%00",
        "reader=%ff:a",
        "reader=:",
        "reader=jane",
        "token=%00",
        "token=%F0%9F%98%80",
        "token=",
        "token=NEW",
        "token=0A5FE317-F8C2-4D6B-8B1E-0123456789AB",
        "token=new&token=new",
        "owning_application=a&owning_application=b",
        "limit=99999999999999999999",
        "limit=0",
        "limit=1001",
        "offset=99999999999999999999",
        "offset=-1",
        "show_status=maybe",
    ],
)
def test_list_with_a_malformed_parameter_is_answered_400_with_its_name(nakadi: Nakadi, query: str) -> None:
    found = problem(nakadi.http.get(f"/subscriptions?{query}"), 400)
    assert found["parameter"] == query.partition("=")[0]


@pytest.mark.parametrize("query", ["reader=a:%22", "reader=%27:%25", f"token={uuid.UUID(int=2**128 - 1)}"])
def test_list_with_an_unknown_reader_or_token_is_answered_200(nakadi: Nakadi, query: str) -> None:
    assert nakadi.http.get(f"/subscriptions?{query}").status_code == 200


@pytest.mark.parametrize("subscription_id", ["%00", "%ff", "%F0%9F%98%80", "x" * 2_000, "%27"], ids=short)
def test_impossible_subscription_id_is_answered_404(nakadi: Nakadi, subscription_id: str) -> None:
    for path in ("", "/cursors", "/stats", "/events", "/parked", "/parked/1"):
        problem(nakadi.http.get(f"/subscriptions/{subscription_id}{path}"), 404)


CURSORS: list[tuple[dict[str, Any], int]] = [
    ({"cursor_token": "\ud800"}, 400),
    ({"cursor_token": 1}, 400),
    ({"event_type": "\0"}, 422),
    ({"event_type": "no.such"}, 422),
    ({"event_type": None}, 422),
    ({"event_type": 1}, 400),
    ({"partition": "\0"}, 422),
    ({"partition": None}, 422),
    ({"partition": 10**30}, 400),
    ({"partition": -1}, 422),
    ({"partition": "00"}, 422),
    ({"partition": "9"}, 422),
    ({"partition": "\u0663"}, 422),
    ({"offset": None}, 422),
    ({"offset": ""}, 422),
    ({"offset": 10**30}, 400),
    ({"offset": "9" * 30}, 422),
    ({"offset": "-5"}, 422),
    ({"offset": "001-0002-000000000000000000"}, 422),
    ({"offset": "001-0001-\u0663"}, 422),
]


@pytest.mark.parametrize("hub", ["nakadi", "strict"])
def test_malformed_cursor_is_neither_committed_nor_reset_to(
    request: pytest.FixtureRequest, database: str, hub: str
) -> None:
    subscription = filled(request.getfixturevalue(hub), 2)
    path = f"{subscription.path}/cursors"
    with subscription.stream() as consumer:
        batch = consumer.batch()
        for change, status in CURSORS:
            cursor = {name: value for name, value in (batch.cursor | change).items() if value is not None}
            for items in ([cursor], [batch.cursor, cursor]):
                body, sent = json.dumps({"items": items}), JSON | {STREAM_ID: consumer.id}
                problem(subscription.http.post(path, content=body, headers=sent), status)
                if "cursor_token" not in change and len(items) == 1:
                    problem(subscription.http.patch(path, content=body, headers=JSON), status)
        assert subscription.committed() == [offset(-1)]
        consumer.done(batch)


def test_forged_token_proves_nothing(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 2)
    with subscription.stream(max_uncommitted_events=1) as consumer:
        batch = consumer.batch()
        parked = (f"parked-1-1-{batch.cursor['cursor_token']}", "parked", "parked--", "parked-1-1-x", "parked-1-2-é")
        for token in (*parked, "\0", "é", "", "parked-\u0663-1-x", f"parked-{'9' * 30}-1-x"):
            problem(consumer.commit(batch.cursor | {"cursor_token": token, "offset": offset(1)}), 422)
        assert subscription.committed() == [offset(-1)]


def test_stream_id_is_a_uuid_in_any_spelling(nakadi: Nakadi) -> None:
    """CursorsServiceAT.shouldThrowInvalidStreamIdWhenStreamIdIsNotUUID."""
    subscription = filled(nakadi, 3)
    with subscription.stream() as consumer:
        for spelling in (consumer.id.upper(), f"urn:uuid:{consumer.id}", consumer.id.replace("-", "")):
            assert subscription.commit(spelling, consumer.batch()).status_code == 204
        for wrong in ("x", "/", "not-a-uuid-at-all"):
            problem(subscription.commit(wrong, consumer.seen[-1]), 422)
    body = json.dumps({"items": [subscription.cursor(0)]}).encode()
    sent = [(STREAM_ID.encode(), b"\xff\xe9"), (b"Content-Type", b"application/json")]
    problem(nakadi.http.post(f"{subscription.path}/cursors", content=body, headers=sent), 422)


@ON_SQLITE
@pytest.mark.parametrize("reason", ["\0", "\ud800", "x" * 1_001, 1, "a\nb"], ids=lambda reason: ascii(reason)[:9])
def test_reason_is_printable_text_of_at_most_1000_characters(nakadi: Nakadi, reason: Any) -> None:
    subscription = filled(nakadi, 2)
    body = json.dumps({"items": [subscription.cursor(0)], "reason": reason})
    problem(nakadi.http.patch(f"{subscription.path}/cursors", content=body, headers=JSON), 400)
    assert subscription.cursors() == {}
    assert nakadi.http.post(f"{subscription.path}/parked/1/skip", content=body, headers=JSON).status_code == 400


@ON_SQLITE
def test_malformed_body_is_refused_at_every_path(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 0)
    name = subscription.event_types[0].encode()
    unreadable = (b"", b"x", b"[]", b'{"items":{}}', b'{"items":["0"]}', b'{"items":[{"offset":{}}]}')
    twice = b'{"owning_application":"a","owning_application":"b","event_types":["%b"]}' % name
    streams: list[tuple[bytes, int]] = [
        (b"x", 400),
        (b"null", 400),
        (b"[]", 400),
        (b"[" * 100_000, 400),
        (b'{"partitions":{}}', 400),
        (b'{"partitions":[null]}', 400),
        (b'{"batch_limit":1.5}', 400),
        (b'{"batch_limit":99999999999}', 400),
        (b'{"partitions":[{}]}', 422),
        (b'{"partitions":[{"event_type":"\\u0000","partition":"0"}]}', 422),
        *(
            (b'{"partitions":[{"event_type":"%b","partition":%b}]}' % (name, partition), 422)
            for partition in (b'"\xd9\xa3"', b"99999999", b'"00"', b'"x"')
        ),
    ]
    cursors, sent = f"{subscription.path}/cursors", JSON | {STREAM_ID: str(uuid.uuid4())}
    rows = [
        *(("POST", cursors, body, 400) for body in unreadable),
        *(("PATCH", cursors, body, 400) for body in unreadable),
        *(
            ("POST", "/subscriptions", body, 400)
            for body in (b"", b"x", b"[]", b'"x"', b'{"owning_application":', twice)
        ),
        *(("POST", f"{subscription.path}/events", body, status) for body, status in streams),
        ("POST", cursors, json.dumps({"items": [subscription.cursor(0)] * 20_000}).encode(), 413),
    ]
    for method, path, body, status in rows:
        problem(nakadi.http.request(method, path, content=body, headers=sent), status)


@ON_SQLITE
def test_stream_parameters_may_be_the_largest_number(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 3)
    largest = dict.fromkeys(("max_uncommitted_events", "batch_limit", "stream_limit", "batch_timespan"), 2**31 - 1)
    with subscription.stream(batch_flush_timeout=1, **largest) as consumer:
        assert consumer.batch().numbers == [0, 1, 2]
