"""Problems that others have written; our own errors' way there and back is with the errors."""

import pytest

from penstock.errors import EventTypeNotFound, PenstockError, ServerError, StaleToken
from penstock.wire.problem import nakadi_problem, to_error, to_problem


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
    ],
    ids=["event type", "at another place", "another"],
)
def test_what_clients_of_nakadi_compare_is_said_in_its_words(error: PenstockError, detail: str) -> None:
    told = nakadi_problem(to_problem(error, 404, "Not Found"))
    assert told == {"title": "Not Found", "status": 404, "detail": detail}
