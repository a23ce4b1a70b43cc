"""What the driver asks of a Nakadi server."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPResponse
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from penstock.errors import Conflict, Forbidden, MalformedAnswer, Unavailable
from penstock.spark.authorization import authorization
from penstock.spark.http import asked, opened
from penstock.spark.nakadi.cursors import Cursors, NakadiPartition, is_before
from penstock.spark.nakadi.options import SubscriptionOptions, WantedSubscription
from penstock.spark.patience import patiently
from penstock.wire.log.nakadi import MEDIA_TYPE, NUMBER_MAX
from penstock.wire.subscriptions import STREAM_ID, BatchCursor

FLUSH_SECONDS: Final = 1
"""A batch that is not full is sent after so long; after as long, that there is nothing."""
MICRO_BATCHES_AHEAD: Final = 2
"""So far what is sent may be ahead of what is committed: one is being processed while the next comes."""
NAKADI: Final = "Nakadi server"
Result = TypeVar("Result")


@dataclass(frozen=True)
class NakadiServer:
    """The server that *options* name. Whatever it is asked, it is asked again while it does not answer.

    Raises:
        BadParameter: there is no token in the file that the options name.
        PenstockError: what the server answers, or that it has not answered for too long.
    """

    options: SubscriptionOptions

    def subscribe(self, definition: WantedSubscription) -> str:
        """Return the id of the subscription that *definition* names; it is created where there is none."""
        return str(self._told("subscriptions", lambda told: told["id"], body=definition.members()))

    def event_types(self, subscription: str) -> list[str]:
        """Return the event types that a subscription reads."""
        return self._told(_path(subscription), lambda told: [str(each) for each in told["event_types"]])

    def cursors(self, subscription: str) -> dict[NakadiPartition, str]:
        """Return what is committed; nothing, where no stream has been opened yet."""
        return self._told(
            _path(subscription, "cursors"),
            lambda told: {
                NakadiPartition(each["event_type"], each["partition"]): str(each["offset"])
                for each in told["items"] or ()
            },
        )

    def ends(self, event_types: Iterable[str]) -> dict[NakadiPartition, str]:
        """Return the newest event of each partition in which there is one."""
        found: dict[NakadiPartition, str] = {}
        for event_type in event_types:
            found |= self._told(f"event-types/{quote(event_type, safe='')}/partitions", partial(_ends, event_type))
        return found

    def commit(self, subscription: str, stream: str, cursors: Sequence[BatchCursor]) -> None:
        """Commit *cursors* for the stream that was sent them; one attempt.

        Raises:
            Invalid: they are not taken from that stream any more.
        """
        headers = {STREAM_ID: stream}
        self._asked(_path(subscription, "cursors"), {"items": msgspec.to_builtins(cursors)}, headers=headers)

    def move(self, subscription: str, cursors: Cursors) -> None:
        """Move a subscription to *cursors*. Whatever streams it has are closed by that.

        Raises:
            Invalid: one of the cursors cannot be had.
            Forbidden: that takes the right to administer the subscription.
        """
        items = [{"event_type": at.event_type, "partition": at.partition, "offset": to} for at, to in cursors.items()]
        self._patiently(lambda: self._moved(subscription, items))

    @contextmanager
    def stream(self, subscription: str) -> Iterator[HTTPResponse]:
        """Open a stream; one attempt.

        Raises:
            Unavailable: there is no room for it now.
        """
        options = self.options
        window = max(options.max_events_per_trigger * MICRO_BATCHES_AHEAD, options.batch_limit)
        wish = {
            "batch_limit": options.batch_limit,
            "batch_flush_timeout": FLUSH_SECONDS,
            "max_uncommitted_events": min(window, NUMBER_MAX),
            "commit_timeout": options.commit_timeout,
        }
        address = self._address(_path(subscription, "events", **wish))
        try:
            with opened(address, MEDIA_TYPE, headers=self._authorization(), wanted=NAKADI) as answer:
                yield answer
        except Conflict as error:
            raise _passing(error) from error

    def _moved(self, subscription: str, items: Sequence[Any]) -> None:
        try:
            self._asked(_path(subscription, "cursors"), {"items": items}, method="PATCH")
        except Forbidden as error:
            advice = "the query moves the subscription to where its checkpoint is; that takes its admin right"
            raise Forbidden(f"{error.detail}: {advice}", **error.fields) from error
        except Conflict as error:
            raise _passing(error) from error

    def _told(self, path: str, read: Callable[[Any], Result], body: Any = None) -> Result:
        def attempt() -> Result:
            told = self._asked(path, body)
            try:
                return read(told)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                reason = f"not what was asked for: {str(told)[:200]}"
                raise MalformedAnswer(url=self._address(path), reason=reason) from error

        return self._patiently(attempt)

    def _asked(
        self, path: str, body: Any = None, *, method: str | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        headers = (headers or {}) | self._authorization()
        return asked(self._address(path), body, method=method, headers=headers, wanted=NAKADI)

    def _patiently(self, attempt: Callable[[], Result]) -> Result:
        return patiently(self.options.retry_timeout, attempt)

    def _authorization(self) -> dict[str, str]:
        return authorization(self.options.authorization_file)

    def _address(self, path: str) -> str:
        return f"{self.options.url}/{path}"


def _passing(error: Conflict) -> Unavailable:
    """Return the error of what is in the way for now, and will pass."""
    return Unavailable(f"others are in the way: {error.detail}", **error.fields)


def _path(subscription: str, *path: str, **query: int) -> str:
    whole = "/".join(["subscriptions", quote(subscription, safe=""), *path])
    return f"{whole}?{urlencode(query)}" if query else whole


def _ends(event_type: str, told: Any) -> dict[NakadiPartition, str]:
    """Read where partitions end; one that is empty ends before its oldest event."""
    return {
        NakadiPartition(event_type, str(each["partition"])): str(each["newest_available_offset"])
        for each in told
        if not is_before(each["newest_available_offset"], each["oldest_available_offset"])
    }
