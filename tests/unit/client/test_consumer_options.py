from typing import Any

import pytest

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
    [{"workers": 0}, {"workers": True}, {"workers": 1.5}, {"grace": -1}],
    ids=["no workers", "truth", "half a worker", "less than no time"],
)
def test_what_makes_no_sense_is_refused(options: Any) -> None:
    with pytest.raises(BadParameter, match=next(iter(options))):
        ConsumerWish(**options)


def test_an_option_that_there_is_not_is_named() -> None:
    given: Any = {"batchlimit": 3}
    with pytest.raises(TypeError, match="batchlimit"):
        consumer_wish(given)
