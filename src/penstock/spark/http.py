"""HTTP by the standard library alone, in our errors: executors have no other HTTP library."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pyarrow as pa

from penstock.errors import ConnectionLost, MalformedAnswer, PenstockError, Unreachable
from penstock.wire.problem import strange_error, to_error

ANSWER_SECONDS_MAX: Final = 60.0
"""A hub that has been silent for so long is taken for lost."""
ERROR_BYTES_MAX: Final = 65_536
JSON: Final = "application/json"
_HUB: Final = "Penstock hub"


def asked(address: str, body: Any = None) -> Any:
    """Return what the hub answers in JSON; with a *body*, it is posted.

    Raises:
        PenstockError: what the hub answers instead, or that the connection failed.
    """
    with opened(address, JSON, None if body is None else json.dumps(body).encode()) as answer:
        said = answer.read()
    try:
        return json.loads(said)
    except ValueError as error:
        raise MalformedAnswer(url=address, reason=f"no JSON: {said[:200]!r}") from error


@contextmanager
def opened(address: str, media_type: str, body: bytes | None = None) -> Iterator[http.client.HTTPResponse]:
    """Open *address*; whatever goes wrong until the block ends is told in our errors."""
    headers = {"Accept": media_type, "User-Agent": "penstock-spark"} | ({} if body is None else {"Content-Type": JSON})
    request = Request(address, body, headers)  # noqa: S310 - see options.py
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
