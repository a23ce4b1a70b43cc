"""The hub over HTTP, by the standard library alone: executors have no other HTTP library."""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pyarrow as pa

from penstock.core.cursor import Cursor, View, feed_mark
from penstock.errors import ConnectionLost, MalformedAnswer, PenstockError, Unreachable
from penstock.spark.heads import Heads, parse_heads
from penstock.spark.patience import Patience
from penstock.spark.ranges import Range
from penstock.spark.reading import Part, sifted
from penstock.wire.arrow import MEDIA_TYPE
from penstock.wire.feedapi import CURSOR_HEADER, LEFT_OUT_HEADER, feed_token
from penstock.wire.problem import strange_error, to_error

ANSWER_SECONDS_MAX: Final = 60.0
"""A hub that has been silent for so long is taken for lost."""
PAGE_EVENTS: Final = 100_000
ERROR_BYTES_MAX: Final = 65_536
_HUB: Final = "Penstock hub"

Result = TypeVar("Result")


class Hub:
    """A hub at a URL. Holds plain values and no connection: it can be sent to executors."""

    def __init__(self, url: str, retry_seconds: float) -> None:
        self.url = url
        self.retry_seconds = retry_seconds

    def heads(self, event_type: str) -> Heads:
        """Return what the feed has to offer now, what was committed to its outbox included.

        Raises:
            EventTypeNotFound: there is no such feed.
            Unreachable, Unavailable: the hub has not answered for too long.
        """
        address = f"{self.url}/event-types/{quote(event_type, safe='')}/partitions"
        return self._patiently(lambda: self._look(address, event_type))

    def page(self, wanted: Range, *, with_headers: bool) -> Iterator[Part]:
        """Read events from the start of *wanted* on, a page at most; one attempt.

        Raises:
            PenstockError: what the hub answers, or that the connection failed.
        """
        count = wanted.partition_count
        query = {
            "token": feed_token(wanted.epoch, count),
            "partition": wanted.partition,
            "cursor": _cursor(wanted, wanted.start),
            "until": _cursor(wanted, wanted.end),
            "pagesizehint": PAGE_EVENTS,
        }
        if with_headers:
            query["headers"] = "_all"
        address = f"{self.url}/feeds/{quote(wanted.event_type, safe='')}/events?{urlencode(query)}"
        with _opened(address, MEDIA_TYPE) as answer, pa.ipc.open_stream(answer) as stream:
            if LEFT_OUT_HEADER in answer.headers:
                left_out, cursor = answer.headers[LEFT_OUT_HEADER], answer.headers.get(CURSOR_HEADER, "")
                yield from sifted(list(stream), wanted, left_out, cursor)
                return
            end = wanted.start
            for batch in stream:
                end += batch.num_rows
                yield Part(batch, end)

    def _look(self, address: str, event_type: str) -> Heads:
        with _opened(address, "application/json") as answer:
            body = answer.read()
            try:
                return parse_heads(event_type, json.loads(body))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                reason = f"no list of partitions: {body[:200]!r}"
                raise MalformedAnswer(url=address, reason=reason) from error

    def _patiently(self, attempt: Callable[[], Result]) -> Result:
        patience = Patience(self.retry_seconds)
        while True:
            try:
                return attempt()
            except PenstockError as error:
                patience.endure(error)


@contextmanager
def _opened(address: str, media_type: str) -> Iterator[http.client.HTTPResponse]:
    """Open *address*; whatever goes wrong until the block ends is told in our errors."""
    request = Request(address, headers={"Accept": media_type, "User-Agent": "penstock-spark"})  # noqa: S310 - see options.py
    try:
        with urlopen(request, timeout=ANSWER_SECONDS_MAX) as answer:  # noqa: S310 - options.py lets http and https pass
            given = answer.headers.get_content_type()
            if given == "text/html":
                raise strange_error(answer.status, answer.read(ERROR_BYTES_MAX), address, _HUB)
            if given != media_type:
                raise MalformedAnswer(url=address, reason=f"{given} instead of {media_type}")
            yield answer
    except HTTPError as error:
        with error:
            raise _refusal(address, error) from None
    except URLError as error:
        raise Unreachable(url=address, reason=str(error.reason)) from error
    except (OSError, http.client.HTTPException, pa.ArrowException) as error:
        raise ConnectionLost(url=address, reason=str(error) or type(error).__name__) from error


def _refusal(address: str, answer: HTTPError) -> PenstockError:
    try:
        body = answer.read(ERROR_BYTES_MAX)
    except (OSError, http.client.HTTPException):
        body = b""
    error = to_error(answer.code, body, address, _HUB)
    seconds = answer.headers.get("Retry-After", "")
    if seconds.isascii() and seconds.isdigit():
        error.fields["retry_after"] = float(seconds)
    return error


def _cursor(wanted: Range, offset: int) -> str:
    count = wanted.partition_count
    return Cursor(feed_mark(wanted.event_type), wanted.epoch, View(count, wanted.partition, count), (offset,)).encode()
