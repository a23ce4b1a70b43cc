"""Input of subscriptions that is made to hurt: refused by name on both databases, and never a defect of the hub."""

import json
import uuid
from typing import Any

import pytest

from tests.nakadi import Nakadi, offset, problem
from tests.subscribing import STREAM_ID, definition, filled, subscribe

JSON = {"Content-Type": "application/json"}
JANE = {"data_type": "user", "value": "jane"}
NUL = {"data_type": "user", "value": "a\0"}
NOBODY = "ffffffff-ffff-ffff-ffff-ffffffffffff"


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ({"owning_application": "a\0"}, 422),
        ({"consumer_group": "a\0"}, 422),
        ({"annotations": {"a": "\0"}}, 422),
        ({"labels": {"a": "\0"}}, 422),
        ({"unknown": {"a": ["\0"]}}, 422),
        ({"unknown": {"\0": 1}}, 422),
        ({"\0": 1}, 422),
        ({"authorization": {"admins": [JANE], "readers": [NUL]}}, 422),
        ({"initial_cursors": [{"event_type": "\0", "partition": "\0", "offset": "\0"}]}, 422),
        ({"event_types": ["\0"]}, 422),
        ({"event_types": ["no name"]}, 422),
        ({"owning_application": "\ud800"}, 400),
        ({"event_types": ["\ud800"]}, 400),
        ({"unknown": "\ud800"}, 400),
    ],
    ids=ascii,
)
def test_text_that_no_database_keeps_is_refused(nakadi: Nakadi, members: dict[str, Any], status: int) -> None:
    created = nakadi.create()
    body = json.dumps(definition(created) | members)
    problem(nakadi.http.post("/subscriptions", content=body, headers=JSON), status)
    subscription = subscribe(created)
    body = json.dumps(subscription.get() | members)
    problem(nakadi.http.put(subscription.path, content=body, headers=JSON), status)
    assert nakadi.http.get("/subscriptions", params={"reader": "user:jane"}).status_code == 200


def test_a_member_stands_once(nakadi: Nakadi) -> None:
    name = nakadi.create().name
    body = f'{{"owning_application":"a","owning_application":"b","event_types":["{name}"]}}'
    problem(nakadi.http.post("/subscriptions", content=body, headers=JSON), 400)


@pytest.mark.parametrize(
    "query",
    [
        "owning_application=%00",
        "owning_application=%ff",
        "event_type=%00",
        "event_type=a,%ff",
        "reader=user:%00",
        "reader=%ff:a",
        "reader=:",
        "token=%00",
        "token=%ff",
        "token=%F0%9F%98%80",
        "token=",
        "token=xyz",
        "token=NEW",
        "token=0A5FE317-F8C2-4D6B-8B1E-0123456789AB",
        "token=new&token=new",
        "owning_application=a&owning_application=b",
        "limit=99999999999999999999",
        "offset=99999999999999999999",
        "event_type=,,",
    ],
)
def test_a_list_of_what_nobody_can_ask_for_is_answered_400(nakadi: Nakadi, query: str) -> None:
    found = problem(nakadi.http.get(f"/subscriptions?{query}"), 400)
    assert found["parameter"] == query.partition("=")[0]


@pytest.mark.parametrize("query", ["reader=a:%22", "reader=%27:%25", f"token={NOBODY}"])
def test_a_list_of_what_there_is_not_is_empty_or_whole(nakadi: Nakadi, query: str) -> None:
    assert nakadi.http.get(f"/subscriptions?{query}").status_code == 200


@pytest.mark.parametrize("path", ["", "/cursors", "/stats", "/events", "/parked", "/parked/1"])
def test_an_id_that_none_can_have_is_not_there(nakadi: Nakadi, path: str) -> None:
    for subscription_id in ("%00", "%ff", "%F0%9F%98%80", "x" * 2_000, "%27"):
        problem(nakadi.http.get(f"/subscriptions/{subscription_id}{path}"), 404)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"cursor_token": "\ud800"}, 400),
        ({"cursor_token": 1}, 400),
        ({"event_type": "\0"}, 422),
        ({"event_type": 1}, 400),
        ({"partition": "\0"}, 422),
        ({"partition": 10**30}, 400),
        ({"partition": 1.5}, 400),
        ({"partition": -1}, 422),
        ({"partition": "00"}, 422),
        ({"partition": "\u0663"}, 422),
        ({"offset": 10**30}, 400),
        ({"offset": "9" * 18}, 422),
        ({"offset": "9" * 30}, 422),
        ({"offset": "-5"}, 422),
        ({"offset": "001-0001--5"}, 422),
        ({"offset": "001-0001-\u0663"}, 422),
    ],
    ids=ascii,
)
def test_a_cursor_that_hurts_is_refused(nakadi: Nakadi, change: dict[str, Any], status: int) -> None:
    subscription = filled(nakadi, 2)
    with subscription.stream() as consumer:
        batch = consumer.batch()
        body = json.dumps({"items": [batch.cursor | change]})
        path, headers = f"{subscription.path}/cursors", JSON | {STREAM_ID: consumer.id}
        problem(nakadi.http.post(path, content=body, headers=headers), status)
        if "cursor_token" not in change:
            problem(nakadi.http.patch(path, content=body, headers=JSON), status)
        consumer.done(batch)


@pytest.mark.parametrize(
    "token", ["\0", "é", "", "parked-\u0663-1-x", "parked-1-2-é", f"parked-{'9' * 30}-1-x"], ids=ascii
)
def test_a_token_that_is_none_proves_nothing(nakadi: Nakadi, token: str) -> None:
    subscription = filled(nakadi, 2)
    with subscription.stream(max_uncommitted_events=1) as consumer:
        batch = consumer.batch()
        problem(consumer.commit(batch.cursor | {"cursor_token": token, "offset": offset(1)}), 422)


def test_the_id_of_a_stream_is_that_however_it_is_written(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 3)
    with subscription.stream() as consumer:
        for written in (consumer.id.upper(), f"urn:uuid:{consumer.id}", consumer.id.replace("-", "")):
            assert subscription.commit(written, consumer.batch()).status_code == 204


def test_bytes_that_are_no_text_name_no_stream(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 1)
    body = json.dumps({"items": [subscription.cursor(0)]}).encode()
    headers = [(STREAM_ID.encode(), b"\xff\xe9"), (b"Content-Type", b"application/json")]
    problem(nakadi.http.post(f"{subscription.path}/cursors", content=body, headers=headers), 422)


@pytest.mark.parametrize("reason", ["\0", "\ud800", "x" * 1_001, 1, "a\nb"], ids=lambda reason: ascii(reason)[:9])
def test_a_reason_is_printable_and_no_novel(nakadi: Nakadi, reason: Any) -> None:
    subscription = filled(nakadi, 2)
    body = json.dumps({"items": [subscription.cursor(0)], "reason": reason})
    problem(nakadi.http.patch(f"{subscription.path}/cursors", content=body, headers=JSON), 400)
    assert subscription.cursors() == {}
    assert nakadi.http.post(f"{subscription.path}/parked/1/skip", content=body, headers=JSON).status_code == 400


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59"])
def test_a_time_far_away_is_the_beginning_or_the_end(nakadi: Nakadi, time: str) -> None:
    subscription = filled(nakadi, 2)
    subscription.reset(subscription.cursor(time))
    assert subscription.committed() == [offset(-1 if time.startswith("0") else 1)]


PARTITIONS = [
    (b"null", 400),
    (b'{"partitions":[null]}', 400),
    (b'{"partitions":[{}]}', 422),
    (b'{"partitions":[{"event_type":"\\u0000","partition":"0"}]}', 422),
    (b'{"partitions":[{"event_type":"%s","partition":"\xd9\xa3"}]}', 422),
    (b'{"partitions":[{"event_type":"%s","partition":99999999}]}', 422),
    (b'{"partitions":[{"event_type":"%s","partition":"00"}]}', 422),
    (b'{"partitions":[{"event_type":"%s","partition":"x"}]}', 422),
    (b'{"batch_limit":1.5}', 400),
    (b'{"batch_limit":99999999999}', 400),
    (b"[" * 100_000, 400),
]


@pytest.mark.parametrize(("body", "status"), PARTITIONS, ids=lambda each: ascii(each)[:60])
def test_a_stream_that_hurts_is_refused(nakadi: Nakadi, body: bytes, status: int) -> None:
    subscription = filled(nakadi, 0)
    body = body.replace(b"%s", subscription.event_types[0].encode())
    problem(nakadi.http.post(f"{subscription.path}/events", content=body, headers=JSON), status)
    assert subscription.cursors() == {} or status == 422


def test_a_window_and_a_batch_may_be_as_large_as_numbers_go(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 3)
    most = 2**31 - 1
    parameters = {"max_uncommitted_events": most, "batch_limit": most, "stream_limit": most, "batch_timespan": most}
    with subscription.stream(batch_flush_timeout=1, **parameters) as consumer:
        assert consumer.batch().numbers == [0, 1, 2]


def test_more_cursors_than_anybody_has_are_refused(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 1)
    answer = subscription.commit(str(uuid.uuid4()), *[subscription.cursor(0)] * 20_000)
    problem(answer, 413)
