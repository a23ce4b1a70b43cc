"""One event on one line: for people, and as a feed line."""

import os
import sys
from functools import cache
from json import dumps as ascii_json
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.core.times import count_microseconds, format_time

if TYPE_CHECKING:
    from penstock.client import FeedEvent


def feed_line(event: "FeedEvent", *, headers: bool) -> str:
    """Return the feed line of *event*, with its offset, key and time, and its *headers* if wanted.

    The event's own bytes are kept.
    """
    time = None if event.received_at is None else f"{event.received_at:%Y-%m-%dT%H:%M:%S.%fZ}"
    known = {"partition": event.partition, "offset": event.offset, "received_at": time, "key": event.key}
    members: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    if headers and event.headers:
        members["headers"] = dict(event.headers)
    return f'{msgspec.json.encode(members).decode()[:-1]},"data":{event.raw.decode()}}}\n'


def people_line(event: "FeedEvent", *, headers: bool) -> str:
    """Return partition, offset, time and key where they are known, and the event."""
    given = event.headers
    words = [_dim(f"{event.partition:>3}")]
    if event.offset is not None and event.received_at is not None:
        words += [_dim(f"{event.offset:>6}"), _dim(format_time(count_microseconds(event.received_at)))]
    words.append(_strong("-" if event.key is None else bare(event.key)))
    own = " " + _dim(_escape(msgspec.json.encode(dict(given)).decode())) if headers and given else ""
    return f"{'  '.join(words)}  {_escape(event.raw.decode())}{own}\n"


def bare(text: str) -> str:
    """Return *text* with nothing in it that a terminal would obey."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def cut(text: str, chars: int) -> str:
    """Return *text* on one line of at most *chars* characters, without control sequences for a terminal."""
    shown = bare(" ".join(text.split()) if len(text) <= chars else text[:chars] + "…")
    return shown if len(shown) <= chars else shown[: chars - 1] + "…"


def _escape(json: str) -> str:
    """Return *json* with characters that control a terminal written as escapes."""
    if json.isprintable():
        return json
    return "".join(letter if letter.isprintable() else ascii_json(letter)[1:-1] for letter in json)


@cache
def _has_colors() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m" if _has_colors() else text


def _strong(text: str) -> str:
    return f"\x1b[36m{text}\x1b[0m" if _has_colors() else text
