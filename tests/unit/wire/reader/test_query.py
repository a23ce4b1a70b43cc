from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.wire.reader.query import Wish, version_two_query, wish


@pytest.mark.parametrize(
    "options",
    [
        {"page_size_hint": -1},
        {"wait": -1},
        {"wait": float("inf")},
        {"wait": float("nan")},
        {"event_types": ["a"], "skip_event_types": ["b"]},
        {"cursor_set": ""},
        {"cursor_set": "x" * 51},
        {"cursor_set": "søster"},
        {"cursor_set": "a\nb"},
    ],
)
def test_a_wish_that_no_server_can_grant_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match=list(options)[-1]):
        Wish(**options)


@pytest.mark.parametrize(("option", "told"), [("pagesizehint", "did you mean 'page_size_hint'?"), ("x", "which has ")])
def test_an_option_that_there_is_not_is_named_with_the_one_that_was_meant(option: str, told: str) -> None:
    with pytest.raises(TypeError, match=f"'{option}' is no option of a read") as refused:
        wish({option: 1})  # type: ignore[misc]

    assert told in str(refused.value)


def test_a_page_size_of_nought_asks_for_cursors_only() -> None:
    assert ("pagesizehint", 0) in version_two_query(Wish(page_size_hint=0), "t", 0, "x", 0)


def test_a_fraction_of_a_second_can_be_waited() -> None:
    assert version_two_query(Wish(), "t", 0, "x", 0.25)[-1] == ("wait", "0.25")


def test_all_headers_are_asked_for_by_their_special_name() -> None:
    assert version_two_query(Wish(headers="_all"), "t", 0, "x", 0)[-1] == ("headers", "_all")
