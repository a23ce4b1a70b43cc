"""Problems that others have written; our own errors' way there and back is with the errors."""

import json
from typing import Any

import pytest

from penstock.errors import (
    BodyTooLarge,
    Conflict,
    CursorExpired,
    EventTypeExists,
    EventTypeNotFound,
    Forbidden,
    Invalid,
    InvalidEvent,
    InvalidEventType,
    InvalidSubscription,
    NotFound,
    NotOffered,
    PartitionNotFound,
    PenstockError,
    ServerError,
    StaleToken,
    StorageInUse,
    TooLarge,
    WrongAddress,
)
from penstock.wire.problem import nakadi_problem, to_error, to_problem

NOT_ITS_OWN = "Wrong partitions specified - some partitions don't belong to subscription: "


@pytest.mark.parametrize(
    "body",
    [b"", b"not json", b"[]", b'"x"', b"null", b"\xff", b'{"type":5}', b'{"type":"about:blank"}', b'{"type":"urn:other:stale-token"}', b'{"type":"urn:penstock:problem:unheard-of"}'],  # noqa: E501
    ids=repr,
)  # fmt: skip
def test_an_answer_that_is_none_of_ours_is_told_as_it_came(body: bytes) -> None:
    error = to_error(502, body, "http://x")
    assert type(error) is ServerError
    assert (error.fields["status"], error.fields["url"]) == (502, "http://x")


def test_a_problem_has_the_members_of_the_standard_first() -> None:
    problem = to_problem(StaleToken(given="a", current="b", title="mine"), 409, "Conflict")
    assert list(problem) == ["type", "title", "status", "detail", "hint", "given", "current"]
    assert problem["title"] == "Conflict"


def test_a_code_alone_is_enough() -> None:
    error = to_error(409, b'{"type":"urn:penstock:problem:stale-token"}')
    assert type(error) is StaleToken


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (EventTypeNotFound(event_type="a.b"), 'EventType "a.b" does not exist.'),
        (EventTypeNotFound("said otherwise", event_type="a.b"), "said otherwise"),
        (StaleToken("as it is", given="a", current="b"), "as it is"),
        (
            InvalidSubscription("in our words", partitions=[{"event_type": "a", "partition": "7"}]),
            NOT_ITS_OWN + "EventTypePartition{eventType='a', partition='7'}",
        ),
        (InvalidSubscription("of something else", field="event_types"), "of something else"),
    ],
    ids=["event type", "at another place", "another", "partitions", "no partitions"],
)
def test_what_clients_of_nakadi_compare_is_said_in_its_words(error: PenstockError, detail: str) -> None:
    told = nakadi_problem(to_problem(error, 404, "Not Found"))
    assert told == {"title": "Not Found", "status": 404, "detail": detail}


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (EventTypeNotFound(event_type="a.b"), 404, EventTypeNotFound),
        (PartitionNotFound("partition not found", event_type="a", partition=1, partition_count=1), 404, NotFound),
        (EventTypeExists(event_type="a"), 409, Conflict),
        (StorageInUse(storage="default"), 403, Forbidden),
        (NotOffered(feature="f"), 501, NotOffered),
        (InvalidEvent(line=1, reason="no"), 422, Invalid),
        (InvalidEventType(field="a", reason="no"), 400, Invalid),
        (BodyTooLarge(limit=1), 413, TooLarge),
        (CursorExpired("gone"), 410, CursorExpired),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, PenstockError) else None,
)
def test_a_problem_without_a_code_is_understood_by_its_words_and_its_status(
    error: PenstockError, status: int, kind: type[PenstockError]
) -> None:
    told = json.dumps(nakadi_problem(to_problem(error, status, "Told"))).encode()

    found = to_error(status, told, "http://x")

    assert type(found) is kind
    assert found.detail == error.detail


def test_what_is_wrong_with_fields_is_read_line_by_line() -> None:
    wrong = InvalidEventType('Field "name" may not be null\nField "a.b" must be 1')
    told = json.dumps(nakadi_problem(to_problem(wrong, 422, "Told"))).encode()

    found = to_error(422, told)

    assert type(found) is InvalidEventType
    assert found.detail == wrong.detail
    assert found.fields["violations"] == [
        {"field": "name", "reason": "may not be null"},
        {"field": "a.b", "reason": "must be 1"},
    ]


STRANGE: list[tuple[dict[str, Any], type[PenstockError]]] = [
    ({"detail": "gone"}, WrongAddress),
    ({"title": "Not Found", "status": 400, "detail": "gone"}, WrongAddress),
    ({"title": "Not Found", "status": 404, "detail": "gone", "instance": "/x"}, WrongAddress),
    ({"title": "Not Found", "status": 404, "detail": "gone", "type": "about:blank"}, WrongAddress),
    ({"title": "Busy", "status": 503, "detail": "later"}, ServerError),
]


@pytest.mark.parametrize(("problem", "kind"), STRANGE, ids=repr)
def test_a_problem_in_another_shape_is_told_as_it_came(problem: dict[str, Any], kind: type[PenstockError]) -> None:
    status = 503 if problem.get("status") == 503 else 404
    assert type(to_error(status, json.dumps(problem).encode(), "http://x")) is kind
