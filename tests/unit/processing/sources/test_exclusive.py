"""What one thread at a time uses of a source is closed once, and by nobody who has to wait."""

import threading

import pytest

from penstock.errors import Unavailable
from penstock.processing.sources.source import Exclusive


def test_thing_in_use_is_closed_by_its_user_and_who_waits_for_it_is_told() -> None:
    closed: list[str] = []
    found: list[str] = []
    thing = Exclusive("thing", closed.append)

    def use() -> None:
        try:
            with thing.use():
                found.append("used")
        except Unavailable as error:
            found.append(str(error.reason))

    other = threading.Thread(target=use)
    with thing.use() as lent:
        assert lent == "thing"
        other.start()
        thing.close()
        assert closed == [], "it is in use"
    other.join(300)
    assert (closed, found) == (["thing"], ["the source is closed"])
    thing.close()
    assert closed == ["thing"]


def test_thing_that_nobody_uses_is_closed_at_once() -> None:
    closed: list[str] = []
    thing = Exclusive("thing", closed.append)
    with thing.use():
        pass
    thing.close()
    assert closed == ["thing"]
    with pytest.raises(Unavailable, match="the source is closed"), thing.use():
        pass
