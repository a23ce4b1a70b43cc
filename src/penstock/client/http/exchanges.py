"""One request to a hub and its answer, tried again where that is safe; answers in JSON are read into a type."""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.errors import BadParameter, PenstockError
from penstock.wire.http import Answer, Exchange, Request, fetch, is_page, malformed, patiently, refusal

_log: Final = logging.getLogger("penstock.client")
_WARNING: Final = re.compile(r'299 \S+ "([^"]*)"')
_GUIDELINE: Final = re.compile("MUST |SHOULD ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and after how long, what failed with something that can pass is tried again.

    That is a batch that is sent, and whatever else is asked of the hub on the way, such as for an epoch.
    """

    max_attempts: int | None = None
    """How often each is tried in all; None: as often as the time of the call allows."""
    max_delay_seconds: float = 5.0
    """The longest pause in seconds; the first is 0.1, each twice the one before, and shortened by chance."""

    def __post_init__(self) -> None:
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise BadParameter(parameter="max_attempts", value=self.max_attempts, allowed="a whole number, 1 or more")
        if type(self.max_delay_seconds) not in (int, float) or not self.max_delay_seconds > 0:
            raise BadParameter(
                parameter="max_delay_seconds", value=self.max_delay_seconds, allowed="seconds, more than 0"
            )


class JsonExchange:
    """Asks for up to *retry_timeout* seconds in all, and logs what the hub warns of."""

    def __init__(self, retry_timeout: float, clock: Callable[[], float]) -> None:
        self._retry_timeout = retry_timeout
        self._clock = clock

    def done(self, request: Request, repeatable: Callable[[PenstockError], bool], *expected: int) -> Exchange[Answer]:
        """Return the answer to *request*, whose status is *expected*; what is *repeatable* is asked for again.

        Raises:
            PenstockError: the hub has refused it, or cannot be reached.
        """

        def attempt() -> Exchange[Answer]:
            answer = yield from fetch(request)
            if answer.status not in expected:
                raise refusal(answer)
            for text in _WARNING.findall(answer.headers.get("warning", "")):
                _log.log(logging.INFO if _GUIDELINE.match(text) else logging.WARNING, "%s", text)
            return answer

        return (yield from patiently(attempt, repeatable, self._retry_timeout, self._clock))


def decoded(answer: Answer, kind: Any) -> Any:
    """Return what *answer* holds, as a *kind*.

    Raises:
        WrongAddress: it is a page for a browser.
        MalformedAnswer: it is nothing of that kind.
    """
    if is_page(answer):
        raise refusal(answer)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed(answer.url, f"{answer.body[:200]!r} ({error})") from error
