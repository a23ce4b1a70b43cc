"""Every error: the tree that is drawn, its code, its fields, and its way through pickle and HTTP."""

import ast
import copy
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from penstock import errors
from penstock.errors import PenstockError, ServerError
from penstock.server.http.problems import problem_response, status_of
from penstock.wire.problem import MEDIA_TYPE, to_error
from tests.cases import each_of

KINDS: list[type[PenstockError]] = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PenstockError)),
    key=lambda kind: kind.__name__,
)
FIELDS: dict[str, Any] = {
    "parameter": "cursor0",
    "value": "Æ\n🦑",
    "line": 3,
    "lost": None,
    "n": 7,
    "detail_of": [1, {"a": "b"}],
}
COMPUTED = {"detail", "epoch_state", "lost", "partitions", "value_state", "where"}
"""Words of messages that are made from other fields."""
CODES = [(kind, code) for kind in KINDS for code in (kind.code, *kind.cases)]
each_kind = each_of({kind.__name__: [kind] for kind in KINDS})
each_code = each_of({code: [kind, code] for kind, code in CODES})


def drawn() -> dict[str, str | None]:
    """Return the parents of the classes as the docstring draws them."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"^    ([│├└─ ]*)([A-Z]\w+)", line):
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            parents[match[2]] = path[depth - 1] if depth else None
    return parents


def test_drawing_of_the_errors_equals_the_classes() -> None:
    assert drawn() == {
        kind.__name__: None if kind is PenstockError else kind.__mro__[1].__name__ for kind in KINDS
    }  # fmt: skip


def test_classes_are_few_enough_to_know() -> None:
    assert len(KINDS) < 90


def test_codes_are_different_and_in_kebab_case() -> None:
    codes = [code for _, code in CODES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


def test_checkpoint_without_a_position_is_described() -> None:
    moved = errors.CheckpointMoved(group="mailer", tranche="order.placed/0", expected=None, found="1:1184")
    left = "mailer: the checkpoint of 'order.placed/0' is at 1:1184; this processor has left it at no position"
    assert moved.detail == left
    gone = errors.CheckpointMoved(group="mailer", tranche="order.placed/0", expected=5, found=None)
    assert (
        gone.detail == "mailer: the checkpoint of 'order.placed/0' is at no position; this processor has left it at 5"
    )


def test_reason_with_a_full_stop_is_quoted_with_one_full_stop() -> None:
    wrong = errors.BadOutcome(returned="'x'")
    error = errors.HandlerFailed(stream="A0", index=3, attempts=2, tag="BadOutcome", reason=str(wrong))

    assert "retry or skip_to. Correct the handler and start again" in str(error)
    assert ".." not in str(error)


def test_error_with_a_field_called_part_names_it() -> None:
    error = errors.MalformedRequest.of("request-too-slow", part="body", timeout_seconds=3)
    assert error.detail == "the body of the request did not arrive within 3 seconds"


def test_attributes_of_an_error_are_its_fields() -> None:
    error = errors.ProducerFenced(partition=3, current_epoch=5)
    error.outcome = "unknown"

    assert (error.partition, error.current_epoch, error.outcome) == (3, 5, "unknown")
    assert error.fields == {"partition": 3, "current_epoch": 5, "outcome": "unknown"}


def test_attribute_without_its_field_is_none_or_missing_by_its_type() -> None:
    error = errors.ProducerFenced("fenced")

    assert error.next_sequence is None and error.retry_after is None
    with pytest.raises(AttributeError, match="this ProducerFenced has no field 'partition'"):
        _ = error.partition


def test_undeclared_field_is_no_attribute() -> None:
    error = errors.NotFound("gone", code="x", event_type="y")

    assert error.code == "not-found"
    assert not hasattr(error, "event_type") and error.fields["event_type"] == "y"


@each_kind
def test_message_is_made_of_declared_fields(kind: type[PenstockError]) -> None:
    for message in (kind.message, *(case.message for case in kind.cases.values())):
        named = {name.removeprefix("at_") for _, name, _, _ in Formatter().parse(message) if name}

        assert named - COMPUTED <= declared(kind)


def test_errors_are_raised_with_declared_fields() -> None:
    kinds = {kind.__name__: declared(kind) for kind in KINDS}
    source = Path(errors.__file__).parents[1]
    strays = {
        f"{path.relative_to(source)}: {name}({field})"
        for path in source.rglob("*.py")
        for name, given in made(path)
        for field in given - kinds.get(name, given)
    }

    assert not strays


def declared(kind: type[PenstockError]) -> set[str]:
    """Return the names of the fields that a class and its ancestors annotate."""
    return {name for each in kind.__mro__ for name in vars(each).get("__annotations__", {})}


def made(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Return which errors a module makes, with the names of the fields that it hands in."""
    text = path.read_text()
    if "penstock.errors" not in text and "penstock import errors" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and (name := name_of(node.func)):
            yield name, {each.arg for each in node.keywords if each.arg}


def name_of(called: ast.expr) -> str:
    """Return what a call is of: `Invalid` for `Invalid`, `errors.Invalid` and `Invalid.of`; empty for methods."""
    if isinstance(called, ast.Name):
        return called.id
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "errors":
        return called.attr
    return name_of(called.value) if isinstance(called, ast.Attribute) and called.attr == "of" else ""


@each_code
def test_error_survives_pickling_and_copying(kind: type[PenstockError], code: str) -> None:
    error = kind.of(code, **FIELDS)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (again.code, again.detail, again.fields) == (code, error.detail, error.fields)
        assert str(again) == str(error)


@each_code
def test_error_survives_http(kind: type[PenstockError], code: str) -> None:
    error = kind.of(code, **FIELDS)
    answer = problem_response(error)
    assert answer.media_type == MEDIA_TYPE
    again = to_error(answer.status_code, bytes(answer.body))
    assert type(again) is kind or kind is ServerError  # That one speaks of an answer that was none of ours.
    if kind is not ServerError:
        assert (again.code, again.detail, again.fields) == (code, error.detail, error.fields)
        assert (again.retryable, again.hint) == (kind.retryable, error.hint)


@each_code
def test_error_without_its_fields_has_a_text(kind: type[PenstockError], code: str) -> None:
    assert str(kind.of(code))
    assert str(kind.of(code, "in other words")).startswith("in other words")


@each_kind
def test_the_message_ends_without_a_stop_and_the_hint_with_one(kind: type[PenstockError]) -> None:
    for message, hint in ((kind.message, kind.hint), *kind.cases.values()):
        assert not message.endswith(".")
        assert hint is None or hint.endswith((".", "`"))


@each_code
def test_retryable_error_is_answered_503_or_429_with_retry_after(kind: type[PenstockError], code: str) -> None:
    answer = problem_response(kind.of(code))
    assert answer.status_code == status_of(kind.of(code))
    assert 400 <= answer.status_code <= 599
    if kind.retryable:
        assert answer.status_code in (429, 503)
    assert ("retry-after" in answer.headers) == (kind.retryable or answer.status_code == 503)
    assert int(answer.headers.get("retry-after", 1)) > 0


def test_retry_after_of_an_error_is_sent() -> None:
    assert problem_response(errors.DiskFull(retry_after=5)).headers["retry-after"] == "5"


def test_list_of_texts_is_joined_in_the_message() -> None:
    told = errors.InvalidEventType.of("guidelines-broken", event_type="a", broken=['it\'s "so"', "line\nbreak \x1b"])

    assert told.detail == "event type 'a' breaks the event guidelines: it's \"so\"; line\\nbreak \\x1b"
    assert told.broken == ['it\'s "so"', "line\nbreak \x1b"]


def test_field_may_have_any_name() -> None:
    fields = {"self": 1, "detail": 2, "type": 3, "status": 4}
    error = errors.Invalid("text", **fields)
    assert pickle.loads(pickle.dumps(error)).fields == error.fields
    again = to_error(400, bytes(problem_response(error).body))
    assert (again.detail, again.fields) == ("text", {"self": 1})
