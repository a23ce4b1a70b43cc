"""What a consumer is told when it is made, beside how it wants its events."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from penstock.client.cancel import AsyncCancel, Cancel
from penstock.client.consuming import Consumed
from penstock.client.producer_options import RetryPolicy
from penstock.client.stream_options import BATCHES_AHEAD, StreamOptions, StreamWish, stream_wish
from penstock.client.subscription_batch import SubscriptionBatch
from penstock.errors import BadParameter

GRACE_S: Final = 30.0
_log: Final = logging.getLogger("penstock.consumer")


def log_failure(batch: SubscriptionBatch[Any], error: Exception) -> None:
    """Tell the log that a handler has failed."""
    _log.warning("handling %r failed, and is tried again: %r", batch, error, exc_info=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerWish:
    """How a consumer goes about its work."""

    workers: int = 1
    grace: float = GRACE_S
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    cancel: Any = None
    on_error: Callable[[SubscriptionBatch[Any], Exception], object] = log_failure
    progress: Callable[[Consumed], object] | None = None
    type: Any = None

    def __post_init__(self) -> None:
        if type(self.workers) is not int or self.workers < 1:
            raise BadParameter(parameter="workers", value=self.workers, allowed="a whole number, 1 or more")
        if not self.grace >= 0:
            raise BadParameter(parameter="grace", value=self.grace, allowed="seconds, 0 or more")
        if not isinstance(self.retry, RetryPolicy):
            raise BadParameter(parameter="retry", value=self.retry, allowed="a RetryPolicy")
        check_callable("on_error", self.on_error)
        if self.progress is not None:
            check_callable("progress", self.progress)


class _SharedOptions(StreamOptions, total=False):
    workers: int
    grace: float
    retry: RetryPolicy
    on_error: Callable[[SubscriptionBatch[Any], Exception], object]
    progress: Callable[[Consumed], object]
    type: Any


class ConsumerOptions(_SharedOptions, total=False):
    """Options of a consumer; see `Client.consumer`."""

    cancel: Cancel


class AsyncConsumerOptions(_SharedOptions, total=False):
    """Options of an async consumer; see `AsyncClient.consumer`."""

    cancel: AsyncCancel


def check_callable(name: str, given: object) -> None:
    """Raise BadParameter unless *given* can be called."""
    if not callable(given):
        raise BadParameter(parameter=name, value=given, allowed="what can be called")


def consumer_wish(options: ConsumerOptions | AsyncConsumerOptions) -> tuple[ConsumerWish, StreamWish]:
    """Return how a consumer goes about its work, and how it wants its events: with enough ahead for all its workers.

    Raises:
        TypeError: one of them is no option, and probably mistyped.
        BadParameter: an option makes no sense.

    >>> consumer_wish({"workers": 2, "batch_limit": 5})[1].max_uncommitted_events
    100
    """
    names = ConsumerWish.__dataclass_fields__.keys()
    given: dict[str, Any] = {**options}
    wish = ConsumerWish(**{name: value for name, value in given.items() if name in names})
    asked = cast(StreamOptions, {name: value for name, value in given.items() if name not in names})
    stream = stream_wish(asked)
    ahead = stream.max_uncommitted_events or BATCHES_AHEAD * stream.batch_limit * wish.workers
    return wish, stream_wish({**asked, "max_uncommitted_events": ahead})
