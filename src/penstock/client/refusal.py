"""Turns a server's refusal back into the error that it stands for."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from penstock.client.exchange import Answer
from penstock.errors import ConnectionLost, PenstockError, ServerError, Unavailable
from penstock.wire.problem import MEDIA_TYPE, to_error

_BODY_CHARS_MAX: Final = 500


def refusal(answer: Answer) -> PenstockError:
    """Return the error that *answer* stands for: one of ours by its code, else ServerError with status and body.

    Its field `retry_after` holds the seconds after which the server wants to be asked again, where it said so.
    """
    after = retry_after(answer.headers, datetime.now(UTC))
    if answer.headers.get("content-type", "").startswith(MEDIA_TYPE):
        error = to_error(answer.status, answer.body, answer.url)
    else:
        body = answer.body.decode(errors="replace").strip()[:_BODY_CHARS_MAX]
        error = ServerError(status=answer.status, url=answer.url, body=body or "(nothing)")
    if after is not None:
        error.fields["retry_after"] = after
    return error


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, None without a usable one.

    >>> from datetime import UTC, datetime
    >>> retry_after({"retry-after": "7"}, datetime(2024, 1, 1, tzinfo=UTC))
    7.0
    >>> retry_after({"retry-after": "Mon, 01 Jan 2024 00:00:09 GMT"}, datetime(2024, 1, 1, tzinfo=UTC))
    9.0
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (ValueError, TypeError):
        return None


def is_passing(error: PenstockError) -> bool:
    """Say whether a read that failed with *error* can succeed later, unchanged."""
    if isinstance(error, ServerError):
        status = error.fields["status"]
        return status in {408, 425, 429} or status >= 500
    return error.retryable


def is_undone(error: PenstockError) -> bool:
    """Say whether *error* means that nothing was done, and that the same can be tried again."""
    if isinstance(error, ServerError):
        return bool(error.fields["status"] == 503) and "retry_after" in error.fields
    return isinstance(error, Unavailable) and not isinstance(error, ConnectionLost)
