"""Credentials of queries: a bearer token, given as an option or read from a file."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from pyspark import TaskContext

from penstock.errors import BadParameter, Unauthenticated

FILE_ALLOWED: Final = "a file that can be read, with a token of printable ASCII in one line"
ROTATION_SECONDS_MAX: Final = 1.0
"""Seconds for which a query waits for another token in its file, after the hub has refused the one that was there.

A rotation writes the file before the old token expires. A query whose token is revoked has to end within five seconds:
one that the hub takes to notice, this one, up to `WRITING_SECONDS_MAX`, and those that Spark takes to end a query.
"""
WRITING_SECONDS_MAX: Final = 1.0
LOOK_SECONDS: Final = 0.1
Result = TypeVar("Result")
_log: Final = logging.getLogger("penstock.spark")


@dataclass(frozen=True)
class Credential:
    """The token with which a query asks a hub. Holds plain values: it is sent to executors. No `repr` shows the token.

    >>> Credential(token="pst_secret")
    Credential(file=None)
    """

    token: str | None = field(default=None, repr=False)
    file: str | None = None
    """A file with the token, read for each request; for executors, at the same path on each machine."""

    def send(self, attempt: Callable[[dict[str, str]], Result]) -> Result:
        """Return what *attempt* returns, called with the headers to send.

        If the token of a file is refused, it may be being rotated: *attempt* is called again as soon as the file has
        another token, for up to `ROTATION_SECONDS_MAX`. A task that Spark runs again does not wait:
        its first attempt has.

        Raises:
            Unauthenticated: the token is refused; says what to do, and does not show it.
            BadParameter: the file has no token.
        """
        headers, deadline = self.headers(), None
        while True:
            try:
                return attempt(headers)
            except Unauthenticated as error:
                deadline = deadline or time.monotonic() + _find_rotation_timeout()
                renewed = self._wait_for_another(headers, deadline)
                if renewed is None:
                    raise self._refusal() from error
                headers = renewed

    def headers(self) -> dict[str, str]:
        """Return the header for the token. Read a file without one again for a second: it may be being written.

        Raises:
            BadParameter: the file has no token.
        """
        if self.token is not None:
            return _header(self.token)
        deadline = time.monotonic() + WRITING_SECONDS_MAX
        while True:
            try:
                return authorization(self.file)
            except BadParameter:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(LOOK_SECONDS)

    def _wait_for_another(self, refused: dict[str, str], deadline: float) -> dict[str, str] | None:
        """Return the header for a token other than the *refused* one; None if the file has none by the deadline."""
        if self.file is None:
            return None
        is_told = False
        while (headers := self.headers()) == refused:
            if time.monotonic() >= deadline:
                return None
            if not is_told:
                is_told = True
                _log.warning("the hub refuses the token in %s; waiting for another one", self.file)
            time.sleep(LOOK_SECONDS)
        return headers

    def _refusal(self) -> Unauthenticated:
        if self.file is not None:
            return Unauthenticated(f"the hub refuses the token in {self.file}: write a valid one into the file")
        if self.token is not None:
            return Unauthenticated("the hub refuses the token that the query was given: give it a valid one")
        return Unauthenticated(
            "the hub needs a token: name a file with one in the option tokenFile, or in auth of a source"
        )


ANONYMOUS: Final = Credential()
"""Sends no token."""


def authorization(authorization_file: str | None) -> dict[str, str]:
    """Return the header for the token that the file has now. To renew the token, replace the file.

    Raises:
        BadParameter: the file has no token; the error does not show its content.
    """
    if authorization_file is None:
        return {}
    try:
        secret = Path(authorization_file).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise _unusable(authorization_file, str(reason)) from None
    if not is_token(secret):
        raise _unusable(authorization_file, "there is none in it" if not secret else "it has spaces or several lines")
    return _header(secret)


def is_token(text: str) -> bool:
    """Return whether *text* can stand in a header as a token."""
    return bool(text) and all("!" <= each <= "~" for each in text)


def _find_rotation_timeout() -> float:
    """Return for how many seconds to wait for another token: zero in a task that Spark runs again."""
    task = TaskContext.get()
    return ROTATION_SECONDS_MAX if task is None or task.attemptNumber() == 0 else 0.0


def _header(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _unusable(file: str, reason: str) -> BadParameter:
    allowed = f"{FILE_ALLOWED}: {reason}"
    detail = f"option tokenFile is {file!r}; allowed: {allowed}"
    return BadParameter(detail, parameter="tokenFile", value=file, allowed=allowed)
