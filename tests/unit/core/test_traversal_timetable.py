from hypothesis import given
from hypothesis import strategies as st

from penstock.processing.sources.periodic import Timetable


class Clocks:
    """The time of day, which may jump, and one that does not."""

    def __init__(self) -> None:
        self.now = 1_000_000.5
        self.passed = 7.0

    def advance(self, seconds: float, *, jump: float = 0) -> None:
        self.now += seconds + jump
        self.passed += seconds

    def timetable(self, interval: int = 60) -> Timetable:
        return Timetable(interval, clock=lambda: self.now, elapsed=lambda: self.passed)


def test_first_traversal_is_due_at_once() -> None:
    assert Clocks().timetable().next_start(None) == 1_000_000


def test_next_traversal_is_due_an_interval_after_the_start_of_the_last() -> None:
    clocks = Clocks()
    timetable = clocks.timetable()
    assert timetable.next_start(None) == 1_000_000

    clocks.advance(59.9)
    assert timetable.next_start(1_000_000) is None
    clocks.advance(0.1)
    assert timetable.next_start(1_000_000) == 1_000_060
    assert timetable.next_start(1_000_060) is None


def test_restarted_query_continues_from_the_stored_start() -> None:
    clocks = Clocks()
    clocks.timetable().next_start(None)

    clocks.advance(20)
    timetable = clocks.timetable()
    assert timetable.next_start(1_000_000) is None
    clocks.advance(40)
    assert timetable.next_start(1_000_000) == 1_000_060

    clocks.advance(7_000)
    assert clocks.timetable().next_start(1_000_060) == 1_007_060


def test_jump_of_the_clock_while_a_query_runs_changes_no_interval() -> None:
    clocks = Clocks()
    timetable = clocks.timetable()
    timetable.next_start(None)

    clocks.advance(30, jump=-500)
    assert timetable.next_start(1_000_000) is None
    clocks.advance(30)
    assert timetable.next_start(1_000_000) == 1_000_001, "it does not go back"
    assert timetable.next_start(1_000_001) is None
    clocks.advance(30, jump=10_000)
    assert timetable.next_start(1_000_001) is None


def test_traversal_is_due_and_later_than_the_last_after_the_clock_has_gone_back() -> None:
    clocks = Clocks()
    clocks.advance(0, jump=-500_000)
    timetable = clocks.timetable()

    assert timetable.next_start(1_000_000) == 1_000_001
    assert timetable.next_start(1_000_001) is None


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1_000, 1_000), st.booleans())))
def test_starts_increase_with_any_clock(steps: list[tuple[float, float, bool]]) -> None:
    clocks = Clocks()
    timetable, last = clocks.timetable(10), 0
    for seconds, jump, is_restart in steps:
        clocks.advance(seconds, jump=jump)
        timetable = clocks.timetable(10) if is_restart else timetable
        start = timetable.next_start(last or None)
        assert start is None or start > last
        last = start or last
