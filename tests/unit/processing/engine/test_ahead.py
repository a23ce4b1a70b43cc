"""What is known of streams that are ahead of their tranche's position."""

from penstock.processing.engine.ahead import Ahead
from penstock.processing.engine.running import Running
from tests.unit.processing.engine.items import Thing

FIRST, SECOND = Running(0, 0, 2, 2), Running(1, 2, 4, 2)


def test_a_stream_is_ahead_until_the_batch_is_done_that_it_has_come_to() -> None:
    ahead = Ahead({})
    ahead.reach("S1", 3, FIRST)
    assert ahead.changes() == {"S1": 3}
    ahead.kept("S1", 3)
    assert ahead.changes() == {}
    ahead.reach("S1", 5, SECOND)
    ahead.end(FIRST)
    assert ahead.changes() == {"S1": 5}
    ahead.end(SECOND)
    assert ahead.changes() == {"S1": None}
    ahead.kept("S1", None)
    assert ahead.changes() == {}


def test_what_was_ahead_for_a_moment_is_never_kept() -> None:
    ahead = Ahead({})
    ahead.reach("S1", 3, FIRST)
    assert ahead.changes_if({"S2": 1}, [FIRST]) == {"S2": 1}
    ahead.end(FIRST)
    assert ahead.changes() == {}


def test_what_was_kept_is_known_by_its_events_however_they_are_read_now() -> None:
    ahead = Ahead({"S1": 3})
    assert ahead.is_repeat(Thing("S1", 0), FIRST)
    ahead.end(FIRST)
    assert ahead.changes() == {}, "its last event lies further on"
    assert ahead.is_repeat(Thing("S1", 2), SECOND)
    assert "S1" not in ahead.unseen
    assert ahead.changes_if({}, [SECOND]) == {"S1": None}


def test_an_event_beyond_what_was_kept_is_none_of_it() -> None:
    ahead = Ahead({"S1": 3})
    assert not ahead.is_repeat(Thing("S1", 7), FIRST)
    assert not ahead.unseen
    ahead.end(FIRST)
    assert ahead.changes() == {"S1": None}


def test_what_is_passed_over_waits_for_no_batch_that_was_there() -> None:
    ahead = Ahead({})
    ahead.reach("S1", 3, FIRST)
    ahead.pass_over("S1", 6)
    ahead.end(FIRST)
    assert ahead.changes() == {"S1": 6}
    ahead.pass_over("S1", 4)
    assert ahead.changes() == {"S1": 6}
    assert ahead.is_repeat(Thing("S1", 5), SECOND)
