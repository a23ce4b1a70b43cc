from typing import Any

import pytest

from penstock.core.fields import Fields, Violation, raise_wrong
from penstock.errors import InvalidSubscription, MalformedSubscription


def told(fields: Fields) -> tuple[list[str], bool]:
    """Return the fields that are wrong, and whether one is not even of its type."""
    try:
        fields.raise_if_wrong(InvalidSubscription, MalformedSubscription)
    except InvalidSubscription as error:
        return [each["field"] for each in error.fields["violations"]], isinstance(error, MalformedSubscription)
    return [], False


def test_what_is_wrong_is_told_all_at_once() -> None:
    with pytest.raises(InvalidSubscription) as error:
        raise_wrong([Violation("a", "is long"), Violation("b", "is short")], InvalidSubscription)

    assert error.value.detail == 'Field "a" is long\nField "b" is short'
    assert error.value.fields["field"] == "a"
    raise_wrong([], InvalidSubscription)


@pytest.mark.parametrize(
    ("read", "value", "found", "wrong"),
    [
        (lambda f: f.text("x"), "é", "é", None),
        (lambda f: f.text("x"), None, "", None),
        (lambda f: f.text("x", required=True), None, "", "invalid"),
        (lambda f: f.text("x", required=True), "", "", None),
        (lambda f: f.text("x"), 1, "", "malformed"),
        (lambda f: f.texts("x"), ["a", "b"], ["a", "b"], None),
        (lambda f: f.texts("x"), None, [], None),
        (lambda f: f.texts("x"), ["a", ""], ["a", ""], "invalid"),
        (lambda f: f.texts("x"), "ab", [], "malformed"),
        (lambda f: f.texts("x"), ["a", 1], [], "malformed"),
        (lambda f: f.one_of("x", ("a", "b")), "B", "b", None),
        (lambda f: f.one_of("x", ("a", "b"), "b"), None, "b", None),
        (lambda f: f.one_of("x", ("a", "b")), None, "a", "invalid"),
        (lambda f: f.one_of("x", ("a", "b"), "b"), "c", "b", "malformed"),
        (lambda f: f.one_of("x", ("a", "b")), ["a"], "a", "malformed"),
        (lambda f: f.object("x"), {"a": 1}, {"a": 1}, None),
        (lambda f: f.object("x"), None, {}, None),
        (lambda f: f.object("x"), [], {}, "malformed"),
        (lambda f: f.counted("x", f.given["x"], 2, 4), 4, 4, None),
        (lambda f: f.counted("x", f.given["x"], 2, 4), 5, 2, "invalid"),
        (lambda f: f.counted("x", f.given["x"], 2, 4), None, 2, "invalid"),
        (lambda f: f.counted("x", f.given["x"], 2, 4), True, 2, "malformed"),
        (lambda f: f.counted("x", f.given["x"], 2, 4), 3.0, 2, "malformed"),
        (lambda f: f.counted("x", f.given["x"], 2, 4), "3", 2, "malformed"),
    ],
    ids=[
        "a text", "no text", "a text that must be there", "an empty text", "a number for a text", "texts", "no texts",
        "an empty one of texts", "a text for texts", "a number among texts", "a choice in capitals", "the default",
        "no choice", "a choice that is none", "a list for a choice", "an object", "no object", "a list for an object",
        "a number", "too large", "no number", "a truth for a number", "a fraction for a number", "a text for a number",
    ],
)  # fmt: skip
def test_something_of_its_type_is_returned_whatever_is_given(
    read: Any, value: Any, found: Any, wrong: str | None
) -> None:
    fields = Fields({"x": value})

    assert read(fields) == found
    assert told(fields) == (["x"] if wrong else [], wrong == "malformed")


@pytest.mark.parametrize(
    ("readers", "wrong"),
    [
        ([{"data_type": "service", "value": "x"}], None),
        ([{"data_type": "service", "value": "x"}, {"data_type": "user", "value": "x"}], None),
        ([{"data_type": "service", "value": "x", "more": 1}, {"value": "x", "data_type": "service"}], "invalid"),
        ([{"data_type": "service"}], "invalid"),
        ([{"data_type": 1, "value": "x"}], "invalid"),
        ([], "invalid"),
        (None, "invalid"),
        (["x"], "malformed"),
        ({}, "malformed"),
    ],
    ids=["one", "two types", "twice", "no value", "a number", "nobody", "nothing", "a text", "an object"],
)
def test_those_who_may_are_each_named_once(readers: Any, wrong: str | None) -> None:
    fields = Fields({"authorization": {"readers": readers}})

    assert fields.authorization("readers") == {"readers": readers}
    assert told(fields) == (["authorization.readers"] if wrong else [], wrong == "malformed")


@pytest.mark.parametrize(("given", "is_wrong"), [(None, False), ([], True), ("x", True)], ids=repr)
def test_nobody_need_be_named(given: Any, is_wrong: bool) -> None:
    fields = Fields({"authorization": given})

    assert fields.authorization("readers") is None
    assert told(fields) == (["authorization"] if is_wrong else [], is_wrong)


def test_what_is_attached_is_told_by_its_key() -> None:
    fields = Fields({"labels": {"a": 1, "b": 2}})

    found = fields.attached("labels", lambda given: [(key, "is wrong") for key in given if key == "b"])

    assert found == {"a": 1, "b": 2}
    assert told(fields) == (["labels[b]"], False)
