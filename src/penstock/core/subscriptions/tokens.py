"""Cursor tokens: they prove that a cursor, or a batch of parked events, was sent to a stream.

A token is a keyed hash of the cursor, under the secret of the stream. The client returns it with the cursor, so each
process can check a commit.

Source: Nakadi's cursor tokens, https://nakadi.io/manual.html; see docs/decisions/nakadi-contract.md.
"""

import hmac
from hashlib import blake2b
from typing import Final, NamedTuple

from penstock.core.subscriptions.assignment import FeedPartition

_PARKED: Final = "parked"
_DIGITS_MAX: Final = 19


class ParkedSpan(NamedTuple):
    """The events of a parked key that were sent again."""

    parked_id: int
    last: int
    """The offset of the last one."""


def make_token(secret: bytes, place: FeedPartition, position: int) -> str:
    """Return the token of the cursor before *position*, in the stream with this *secret*.

    >>> make_token(b"s", ("orders", 0), 7) == make_token(b"s", ("orders", 0), 7)
    True
    >>> make_token(b"s", ("orders", 0), 7) == make_token(b"t", ("orders", 0), 7)
    False
    """
    event_type, partition = place
    text = blake2b(f"{partition} {position} {event_type}".encode(), digest_size=16, key=secret).hexdigest()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_valid_token(token: str, secret: bytes, place: FeedPartition, position: int) -> bool:
    """Return whether *token* belongs to this cursor in the stream with this *secret*."""
    return hmac.compare_digest(token.encode(), make_token(secret, place, position).encode())


def make_parked_token(secret: bytes, span: ParkedSpan) -> str:
    """Return the token of a batch of parked events.

    >>> make_parked_token(b"s", ParkedSpan(3, 17)).startswith("parked-3-17-")
    True
    """
    return f"{_PARKED}-{span.parked_id}-{span.last}-{make_token(secret, (_PARKED, span.parked_id), span.last)}"


def read_parked_token(token: str, secret: bytes) -> ParkedSpan | None:
    """Return the parked events that were sent with *token*; None if the stream has sent no such batch.

    >>> read_parked_token(make_parked_token(b"s", ParkedSpan(3, 17)), b"s")
    ParkedSpan(parked_id=3, last=17)
    """
    name, *parts = token.split("-", 3)
    if name != _PARKED or len(parts) != 3 or not all(map(_is_number, parts[:2])):
        return None
    span = ParkedSpan(int(parts[0]), int(parts[1]))
    return span if hmac.compare_digest(token.encode(), make_parked_token(secret, span).encode()) else None


def is_parked_token(token: str) -> bool:
    """Return whether *token* has the form of a token for parked events; the token may be forged.

    >>> is_parked_token("parked-3-17-"), is_parked_token("27da7aa0-1aab-fea1-3342-f2278f1d901c")
    (True, False)
    """
    return token.startswith(f"{_PARKED}-")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
