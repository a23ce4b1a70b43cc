import asyncio
import threading
from typing import Any

import pytest

from penstock import AsyncClient, Client
from penstock.client.consumer_options import ConsumerWish, consumer_wish
from penstock.errors import BadParameter


def test_what_is_said_of_the_work_is_told_from_what_is_said_of_the_stream() -> None:
    wish, stream = consumer_wish({"workers": 4, "grace": 1.5, "batch_limit": 20, "commit_timeout": 5})

    assert (wish.workers, wish.grace, stream.batch_limit, stream.commit_timeout) == (4, 1.5, 20, 5)
    assert stream.max_uncommitted_events == 800, "ten batches for each worker"


def test_a_window_that_is_given_stays() -> None:
    assert consumer_wish({"workers": 4, "max_uncommitted_events": 50})[1].max_uncommitted_events == 50


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 0},
        {"workers": True},
        {"workers": 1.5},
        {"grace": -1},
        {"retry": 3},
        {"on_error": None},
        {"progress": 5},
    ],
    ids=["no workers", "truth", "half a worker", "less than no time", "no policy", "nothing to call", "no function"],
)
def test_what_makes_no_sense_is_refused(options: Any) -> None:
    with pytest.raises(BadParameter, match=next(iter(options))):
        ConsumerWish(**options)


async def handle(_: object) -> None:
    pass


WRONG: dict[str, dict[str, Any]] = {
    "subscription": {"subscription": 5},
    "handler": {"handler": None},
    "cancel": {"cancel": True},
}


@pytest.mark.parametrize(("name", "given"), WRONG.items(), ids=WRONG)
def test_what_cannot_be_called_or_asked_is_refused_before_anything_is_read(name: str, given: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"subscription": "s", "handler": handle} | given
    with Client("http://localhost:1") as client, pytest.raises(BadParameter, match=name):
        client.consume(**asked)
    with pytest.raises(BadParameter, match=name):
        AsyncClient("http://localhost:1").consumer(**asked)


def test_an_event_of_the_other_kind_is_refused() -> None:
    """An async client would stand still where it waits for an event of threads."""
    theirs: dict[str, Any] = {"cancel": asyncio.Event()}
    with Client("http://localhost:1") as client, pytest.raises(BadParameter, match="cancel"):
        client.consume("s", print, **theirs)
    ours: dict[str, Any] = {"cancel": threading.Event()}
    with pytest.raises(BadParameter, match="cancel"):
        AsyncClient("http://localhost:1").consumer("s", handle, **ours)


def test_an_option_that_there_is_not_is_named() -> None:
    given: Any = {"batchlimit": 3}
    with pytest.raises(TypeError, match="batchlimit"):
        consumer_wish(given)
