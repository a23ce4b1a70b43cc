import pytest

from penstock.client.consumer_session import ConsumerSession
from penstock.errors import PenstockError
from tests.unit.client.batches import batch

P0, P1, P2 = ("a.b", 0), ("a.b", 1), ("a.b", 2)
FAILED = PenstockError("x")


@pytest.fixture
def session() -> ConsumerSession:
    return ConsumerSession("s1", 100.0, 4.0, is_unwanted=False)


def test_it_keeps_what_is_worked_on_and_what_has_failed_until_its_pause_is_over(session: ConsumerSession) -> None:
    session.pending[P0] += 1
    session.handled.append(batch(partition=1))
    session.failed[P2] = 105.0

    assert session.keep(104.0) == {P0, P1, P2}
    assert session.keep(105.0) == {P0, P1}
    session.void.add(P1)
    assert session.keep(105.0) == {P0}


def test_it_is_done_once_nothing_is_kept(session: ConsumerSession) -> None:
    assert not session.is_done
    session.has_ended = True
    assert not session.is_done
    session.kept = frozenset({P0})
    assert not session.is_done
    session.kept = frozenset()
    assert session.is_done
    session.pending[P0] += 1
    assert not session.is_done
    session.forget(P0)
    assert session.is_done


def test_a_step_that_fails_waits_longer_each_time_and_others_do_not(session: ConsumerSession) -> None:
    for number in range(3):
        session.has_failed(int, FAILED, 100.0)
        longest = 0.1 * 2**number
        assert 100.0 + longest / 2 <= session.retry_at[int] <= 100.0 + longest

    assert session.waits(int, 100.1)
    assert not session.waits(int, 100.4)
    assert not session.waits(str, 100.0)
    session.has_succeeded(int)
    assert not session.waits(int, 100.0)
    session.has_failed(int, FAILED, 100.0)
    assert session.retry_at[int] <= 100.1
