"""Plays a server's part for protocol code: no network, no clock but the script's own."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.client.concurrency import take
from penstock.errors import PenstockError
from penstock.wire.http import Exchange, HttpRequest, Pause, ReaderItem, ReadMore, ResponseHead, TakeEvents

NDJSON = {"content-type": "application/x-ndjson"}
PROBLEM = {"content-type": "application/problem+json"}


@dataclass
class Reply:
    """One answer, or an error instead of it or after a part of it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    """How long the server takes."""
    lost: PenstockError | None = None
    chunk_size: int = 7


def problem(status: int, code: str, **fields: Any) -> Reply:
    """Return the problem+json answer that stands for one of our errors."""
    import json

    body = {"type": f"urn:penstock:problem:{code}", "status": status, "detail": code, **fields}
    return Reply(status, json.dumps(body).encode(), PROBLEM)


class Script:
    """Carries out exchanges, giving each request the next reply."""

    def __init__(self, *replies: Reply | PenstockError) -> None:
        self.replies = list(replies)
        self.requests: list[HttpRequest] = []
        self.pauses: list[Pause] = []
        self.pages: list[Any] = []
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    @property
    def urls(self) -> list[str]:
        return [request.url.removeprefix("http://s") for request in self.requests]

    @property
    def seconds(self) -> list[float]:
        """How long each pause was."""
        return [pause.seconds for pause in self.pauses]

    def play(self, exchange: Exchange[Any], events: Iterable[Any] = (), *, pages: int | None = None) -> Any:
        """Carry out *exchange* to its end, or until it has brought so many pages or the replies have run out."""
        source = iter(events)
        chunks: Iterator[Any] = iter(())
        step = lambda: next(exchange)  # noqa: E731
        while True:
            try:
                effect = step()
            except StopIteration as stop:
                return stop.value
            step = self._sending(exchange, None)
            match effect:
                case ReaderItem():
                    self.pages.append(effect)
                    if len(self.pages) == pages:
                        return exchange.close()
                case Pause():
                    self.pauses.append(effect)
                    self.now += effect.seconds
                case TakeEvents(count):
                    step = self._sending(exchange, take(source, count))
                case HttpRequest() if not self.replies and pages is None:
                    return exchange.close()
                case HttpRequest():
                    self.requests.append(effect)
                    reply = self.replies.pop(0)
                    if isinstance(reply, PenstockError):
                        step = self._throwing(exchange, reply)
                    else:
                        self.now += reply.seconds
                        chunks = self._chunks(reply)
                        step = self._sending(exchange, ResponseHead(reply.status, reply.headers))
                case ReadMore():
                    chunk = next(chunks, b"")
                    throws = isinstance(chunk, PenstockError)
                    step = self._throwing(exchange, chunk) if throws else self._sending(exchange, chunk)

    @staticmethod
    def _chunks(reply: Reply) -> Iterator[Any]:
        for begin in range(0, len(reply.body), reply.chunk_size):
            yield reply.body[begin : begin + reply.chunk_size]
        if reply.lost is not None:
            yield reply.lost

    @staticmethod
    def _sending(exchange: Exchange[Any], value: Any) -> Any:
        return lambda: exchange.send(value)

    @staticmethod
    def _throwing(exchange: Exchange[Any], error: PenstockError) -> Any:
        return lambda: exchange.throw(error)
