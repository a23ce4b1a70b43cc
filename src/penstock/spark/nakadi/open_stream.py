"""An open stream of a subscription, which a thread of its own reads until it ends or is closed."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.client import HTTPResponse
from typing import Final, NamedTuple, TypeAlias

import msgspec

from penstock.errors import ConnectionLost, MalformedAnswer, PenstockError
from penstock.spark.nakadi.inbox import BoundedQueue
from penstock.wire.subscriptions import BATCHES, STREAM_ID, BatchLine

INBOX_BYTES: Final = 32 << 20
"""How much may be read ahead of what is landed."""
CLOSE_SECONDS: Final = 10.0
UNSAID: Final = "the server did not say why"


class StreamEnd(NamedTuple):
    """What comes last: why the stream has ended."""

    reason: str
    error: PenstockError | None
    """What the connection was lost by, or why there is none; None: the server has ended the stream."""


class _Began(NamedTuple):
    id: str


News: TypeAlias = BatchLine | StreamEnd


class OpenStream:
    """A stream: its lines in their order, then why it has ended.

    Raises:
        PenstockError: it cannot be had; what *connect* raises.
    """

    def __init__(self, connect: Callable[[], AbstractContextManager[HTTPResponse]]) -> None:
        self._connect = connect
        self._inbox: BoundedQueue[News | _Began | Exception] = BoundedQueue(INBOX_BYTES)
        self._socket: socket.socket | None = None
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="penstock-nakadi-stream", daemon=True)
        self._thread.start()
        first = self._taken(None)
        if isinstance(first, StreamEnd):
            self._thread.join()
            assert first.error is not None, "a stream that never began has failed"
            raise first.error
        assert isinstance(first, _Began)
        self.id: str = first.id

    def take(self, timeout: float) -> News | None:
        """Return what is next; None: nothing has come for *timeout* seconds."""
        found = self._taken(timeout)
        assert not isinstance(found, _Began), "a stream begins once"
        return found

    def close(self) -> None:
        """Close the connection, and wait for the thread."""
        self._inbox.close()
        with self._turn, suppress(OSError):  # It may be closed by now.
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(CLOSE_SECONDS)

    def _taken(self, timeout: float | None) -> News | _Began | None:
        found = self._inbox.take(timeout)
        if isinstance(found, Exception):
            raise found
        return found

    def _run(self) -> None:
        try:
            self._inbox.put(StreamEnd(self._read(), None), 0)
        except PenstockError as error:
            self._inbox.put(StreamEnd(error.detail, error), 0)
        except Exception as error:  # noqa: BLE001 - A defect of ours: it is raised where the stream is read.
            self._inbox.put(error, 0)

    def _read(self) -> str:
        reason = UNSAID
        with self._connect() as answer, self._held(answer):
            url = answer.url
            if STREAM_ID not in answer.headers:
                raise MalformedAnswer(url=url, reason=f"it has no {STREAM_ID}")
            self._inbox.put(_Began(answer.headers[STREAM_ID]), 0)
            for text in answer:
                line = _line(url, text)
                reason = line.reason or reason
                if not self._inbox.put(line, len(text)):
                    break
        return reason

    @contextmanager
    def _held(self, answer: HTTPResponse) -> Iterator[None]:
        """Keep a second handle on the connection: the first is busy in the thread that reads."""
        with socket.socket(fileno=os.dup(answer.fileno())) as connection:
            self._hold(connection)
            try:
                yield
            finally:
                self._hold(None)

    def _hold(self, connection: socket.socket | None) -> None:
        with self._turn:
            self._socket = connection


def _line(url: str, text: bytes) -> BatchLine:
    try:
        return BATCHES.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not text.endswith(b"\n"):
            raise ConnectionLost(url=url, reason="it broke off in the middle of a line") from error
        raise MalformedAnswer(url=url, reason=f"no line of a stream: {text[:200]!r} ({error})") from error
