import pytest

from penstock.core import change as changes
from penstock.core.change import REQUIRED_EXTENDED, Change, Level, Rule

RULES = [value for value in vars(changes).values() if isinstance(value, Rule)]


def test_a_change_has_a_level_in_each_mode() -> None:
    change = Change(REQUIRED_EXTENDED, "#/required", [], ["a"], producers=False, consumers=True, instead="")

    assert [change.level(mode) for mode in ("none", "forward", "compatible")] == [Level.MINOR, Level.MINOR, Level.MAJOR]
    assert str(change) == "#/required: required array changed: a member was added"


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_who_is_refused_is_told_a_way_out(rule: Rule) -> None:
    assert rule.says
    assert (rule.instead != "") == (Level.MAJOR in (rule.forward, rule.compatible)), "None is told by the place"
    assert rule.compatible >= rule.forward


def test_no_two_rules_have_one_name() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) > 20
