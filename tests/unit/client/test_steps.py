from collections.abc import Generator
from typing import Any

import httpx2
import pytest

from penstock.client.steps import Steps
from penstock.errors import ConnectionLost, Unreachable
from penstock.wire.exchange import MORE, Request

GET = Request(method="GET", url="http://s/feed")


def exchange() -> Generator[Any, Any, list[Any]]:
    seen = []
    for effect in (GET, MORE):
        try:
            seen.append((yield effect))
        except (Unreachable, ConnectionLost) as error:
            seen.append(error)
    return seen


def test_what_came_of_an_effect_is_told_with_the_next_step() -> None:
    steps = Steps(exchange())

    assert steps.following() is GET
    steps.done("head")
    assert steps.following() is MORE
    steps.done(b"body")
    assert steps.following() is None
    assert steps.outcome == ["head", b"body"]


def test_a_failure_of_the_connection_is_told_to_the_exchange() -> None:
    steps = Steps(exchange())
    steps.following()

    steps.failed(httpx2.ConnectError("refused"))
    steps.done(None)

    assert steps.following() is MORE
    steps.following()
    assert isinstance(steps.outcome[0], Unreachable)
    assert steps.outcome[0].fields["url"] == "http://s/feed"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), ValueError("ours")])
def test_an_interruption_is_raised_and_the_answer_lost(interruption: BaseException) -> None:
    steps = Steps(exchange())
    steps.following()

    with pytest.raises(type(interruption)):
        steps.failed(interruption)

    steps.following()
    steps.following()
    assert isinstance(steps.outcome[0], ConnectionLost)
