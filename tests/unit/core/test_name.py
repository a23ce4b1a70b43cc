import pytest

from penstock.core.event_type import EventType
from penstock.core.name import is_name
from penstock.errors import InvalidEventType
from penstock.testing.factories import an_event_type


@pytest.mark.parametrize("name", ["a", "a.b", "A-1_x.2b", "order.placed", "a" * 255])
def test_a_name_is_made_of_parts_with_dots_between(name: str) -> None:
    assert is_name(name)
    assert EventType.parse(an_event_type(name)).name == name


@pytest.mark.parametrize(
    "name", ["", ".", "a.", ".a", "a..b", "1a", "_a", "a b", "a/b", "é", "a\n", "a\x00", "a" * 256]
)
def test_nothing_else_is_a_name(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(InvalidEventType) as raised:
        EventType.parse(an_event_type(name))
    assert raised.value.fields["field"] == "name"


def test_a_name_that_is_too_long_is_told_so() -> None:
    with pytest.raises(InvalidEventType, match="the length of the name must be >= 1 and <= 255"):
        EventType.parse(an_event_type("a" * 256))
