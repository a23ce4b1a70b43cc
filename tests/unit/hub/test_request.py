"""A request is carried out while its publisher waits for it, and told once what has become of it."""

import time
from concurrent.futures import CancelledError
from typing import Any

import pytest

from penstock.core.producer import Stamp, digests_of
from penstock.errors import DeadlinePassed, HubStopped, InvalidEvent
from penstock.hub.append import Published
from penstock.hub.publish import Handed, Unfit
from penstock.hub.request import Request
from penstock.hub.stamped import Stamped, Who
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import NAME, a_feed, ready

FEED = a_feed(3, partition_strategy="user_defined")
PUBLISHED = Published(FEED, 1, {0: 1})


def a_request(deadline: float | None = None, *, fits: bool = True) -> Request:
    event = a_new_event(partition=2)
    stamped = Stamped(Who(NAME, 2, "g"), Stamp(0, 0), digests_of([bytes(event.data)]), deadline=deadline)
    found = ready(FEED, event) if fits else Unfit(FEED, InvalidEvent(line=1, reason="it is no good"))
    return Request(NAME, Handed([event], partition=2), found, stamped=stamped)


@pytest.mark.parametrize("fits", [True, False], ids=["fit", "unfit"])
def test_its_producer_is_found_by_the_number_that_the_store_has_of_its_partition(fits: bool) -> None:
    assert a_request(fits=fits).producer_key == (102, "g")


@pytest.mark.parametrize("others", [{}, {"ready": ready(FEED, a_new_event(partition=2))}], ids=["a move", "a publish"])
def test_one_that_is_not_stamped_has_no_producer(others: dict[str, Any]) -> None:
    assert Request(NAME, **others).producer_key is None


def test_it_is_taken_up_again_but_never_after_it_was_given_up() -> None:
    kept, given_up = Request(NAME), Request(NAME)
    given_up.future.cancel()

    assert [kept.take_up(), kept.take_up()] == [True, True]
    assert not given_up.take_up()
    with pytest.raises(CancelledError):
        given_up.future.result(0)


def test_one_that_is_under_way_is_not_given_up_any_more() -> None:
    request = Request(NAME)
    request.take_up()

    assert not request.future.cancel()


@pytest.mark.parametrize("seconds", [None, 60.0], ids=["none", "later"])
def test_before_its_deadline_it_is_taken_up(seconds: float | None) -> None:
    request = a_request(None if seconds is None else time.monotonic() + seconds)

    assert request.take_up()
    assert not request.future.done()


@pytest.mark.parametrize("before", [False, True], ids=["new", "put off"])
def test_after_its_deadline_it_is_told_so_and_not_taken_up(before: bool) -> None:
    request = a_request(time.monotonic() - 1)
    if before:
        request.future.set_running_or_notify_cancel()

    assert not request.take_up()

    error = request.future.exception(0)
    assert isinstance(error, DeadlinePassed)
    assert (error.retryable, error.fields) == (True, {"retry_after": 1})
    assert not request.take_up()


def test_one_that_was_told_is_not_taken_up_again() -> None:
    request = a_request()
    request.tell(PUBLISHED)

    assert not request.take_up()


@pytest.mark.parametrize("told", [PUBLISHED, None], ids=["published", "nothing"])
def test_what_was_stored_is_told(told: Published | None) -> None:
    request = Request(NAME)

    request.tell(told)

    assert request.future.result(0) is told


def test_a_refusal_is_told_as_one() -> None:
    request, refusal = a_request(), InvalidEvent(line=1, reason="it is no good")

    request.tell(refusal)

    assert request.future.exception(0) is refusal


def test_what_is_told_first_holds() -> None:
    failed, answered = Request(NAME), Request(NAME)
    for request in (failed, answered):
        assert request.take_up()

    failed.fail(HubStopped(retry_after=1))
    for request in (failed, answered):
        request.tell(PUBLISHED)
        request.tell(None)
        request.fail(ZeroDivisionError())
        request.tell(InvalidEvent(line=1, reason="it is no good"))

    assert isinstance(failed.future.exception(0), HubStopped)
    assert answered.future.result(0) is PUBLISHED
