"""One request to a hub and its response: retries where they are safe, and JSON decoded into a type."""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from penstock.errors import BadParameter, MalformedAnswer, PenstockError
from penstock.wire.http import (
    Exchange,
    HttpRequest,
    HttpResponse,
    error_of,
    fetch,
    is_page,
    retry_until,
)

_log: Final = logging.getLogger("penstock.client")
_WARNING: Final = re.compile(r'299 \S+ "([^"]*)"')
_GUIDELINE: Final = re.compile("MUST |SHOULD ")
Item = TypeVar("Item")


class ListPage(msgspec.Struct, Generic[Item]):
    """A page of a list in the format of the hub's response."""

    items: list[Item]
    links: dict[str, Any] = msgspec.field(default_factory=dict, name="_links")

    @property
    def has_next(self) -> bool:
        """True if another page follows."""
        return "next" in self.links and bool(self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of the retries after temporary failures.

    They apply to a batch that is sent, and to all other requests made on the way, such as claiming an epoch.
    """

    max_attempts: int | None = None
    """Maximum number of attempts of each request; None retries until the call's timeout."""
    max_delay_seconds: float = 5.0
    """Maximum delay in seconds. The first delay is 0.1 seconds; each is twice the one before, with jitter."""

    def __post_init__(self) -> None:
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise BadParameter(parameter="max_attempts", value=self.max_attempts, allowed="a whole number, 1 or more")
        if type(self.max_delay_seconds) not in (int, float) or not self.max_delay_seconds > 0:
            raise BadParameter(
                parameter="max_delay_seconds", value=self.max_delay_seconds, allowed="seconds, more than 0"
            )


class JsonExchange:
    """Sends requests, retries them for up to *retry_timeout* seconds, and logs the hub's warnings."""

    def __init__(self, retry_timeout: float, clock: Callable[[], float]) -> None:
        self._retry_timeout = retry_timeout
        self._clock = clock

    def send(
        self,
        request: HttpRequest,
        repeatable: Callable[[PenstockError], bool],
        *expected: int,
        logs_warnings: bool = True,
    ) -> Exchange[HttpResponse]:
        """Return the response to *request*, whose status is one of *expected*; retry errors that are *repeatable*.

        Raises:
            PenstockError: The hub refused the request, or cannot be reached.
        """

        def attempt() -> Exchange[HttpResponse]:
            answer = yield from fetch(request)
            if answer.status not in expected:
                raise error_of(answer)
            for text in _WARNING.findall(answer.headers.get("warning", "")) if logs_warnings else ():
                _log.log(logging.INFO if _GUIDELINE.match(text) else logging.WARNING, "%s", text)
            return answer

        return (yield from retry_until(attempt, repeatable, self._retry_timeout, self._clock))


def decode_response(answer: HttpResponse, kind: Any) -> Any:
    """Return the JSON body of *answer* as a *kind*.

    Raises:
        WrongAddress: The body is an HTML page.
        MalformedAnswer: The body is not of that type.
    """
    if is_page(answer):
        raise error_of(answer)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswer(url=answer.url, reason=f"{answer.body[:200]!r} ({error})") from error
