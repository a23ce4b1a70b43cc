"""Turns a server's refusal back into the error that it stands for."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from penstock.errors import ConnectionLost, PenstockError, Unavailable
from penstock.wire.exchange import Answer
from penstock.wire.problem import MEDIA_TYPE, strange_error, to_error

HUB: Final = "Penstock hub"
FEED: Final = "feed"


def refusal(answer: Answer, wanted: str = HUB) -> PenstockError:
    """Return the error that *answer* stands for: one of ours by its code, else ServerError with status and body.

    WrongAddress, where it is none that *wanted* would give. Its field `retry_after` holds the seconds after which the
    server wants to be asked again, where it said so.
    """
    after = retry_after(answer.headers, datetime.now(UTC))
    if answer.headers.get("content-type", "").startswith(MEDIA_TYPE):
        error = to_error(answer.status, answer.body, answer.url, wanted)
    else:
        error = strange_error(answer.status, answer.body or _led_to(answer), answer.url, wanted)
    if after is not None:
        error.fields["retry_after"] = after
    return error


def is_page(answer: Answer) -> bool:
    """Say whether *answer* is a page for a browser, or anything else that JSON does not begin like."""
    return answer.body.lstrip()[:1] == b"<"


def _led_to(answer: Answer) -> bytes:
    location = answer.headers.get("location")
    return b"" if location is None else f"go to {location}".encode()


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


def is_undone(error: PenstockError) -> bool:
    """Say whether *error* means that nothing was done, and that the same can be tried again: a hub's own word alone.

    Whoever stands between it and the hub may answer 503 to what the hub has carried out.
    """
    return isinstance(error, Unavailable) and not isinstance(error, ConnectionLost)
