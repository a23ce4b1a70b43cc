import re

import pytest

from penstock.errors import BadParameter
from penstock.processing.sources.names import Names


def test_a_name_is_all_of_it_and_an_expression_any_part() -> None:
    names = Names("kinds", ["order.placed", "^paid", re.compile("refund")], ["paid.late"])

    wanted = ["order.placed", "paid", "paid.early", "no.refund.yet"]
    assert [
        each for each in [*wanted, "order_placed", "order.placed.x", "paid.late", ""] if names.allow(each)
    ] == wanted
    assert str(names) == r"kinds: ^order\.placed\Z, ^paid, refund, not ^paid\.late\Z"


def test_without_a_word_all_are_allowed() -> None:
    assert not Names("kinds")
    assert Names("kinds").allow("x")
    assert not Names("kinds", (), ["x"]).allow("x")
    assert Names("kinds", (), ["x"]).allow("y")


def test_what_cannot_be_is_named() -> None:
    with pytest.raises(BadParameter, match="except_kinds is '\\(a'; allowed: a name, or a regular expression"):
        Names("kinds", (), ["(a"])
    with pytest.raises(BadParameter, match="a list of names"):
        Names("kinds", "abc")
