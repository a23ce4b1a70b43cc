"""One event on one line: for people, and as a feed line."""

import os
import sys
from functools import cache
from json import dumps as ascii_json
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from penstock.client import FeedEvent


def feed_line(event: "FeedEvent", *, headers: bool) -> str:
    """Return the feed line of *event*, with its *headers* if wanted; the event's own bytes are kept."""
    carried = f'"headers":{msgspec.json.encode(dict(event.headers)).decode()},' if headers and event.headers else ""
    return f'{{"partition":{event.partition},{carried}"data":{event.raw.decode()}}}\n'


def people_line(event: "FeedEvent", *, headers: bool) -> str:
    """Return partition, time, key and kind where they are known, and the event."""
    given = event.headers
    place = f"{event.partition:>3}"
    time = given.get("ce_time", "")
    words = [_dim(place), _dim(time) if time else "", _strong(bare(given.get("ce_partitionkey", "-")))]
    own = " " + _dim(_escaped(msgspec.json.encode(dict(given)).decode())) if headers and given else ""
    return f"{'  '.join(word for word in words if word)}  {_escaped(event.raw.decode())}{own}\n"


def bare(text: str) -> str:
    """Return *text* with nothing in it that a terminal would obey."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def cut(text: str, chars: int) -> str:
    """Return *text* on one line of up to so many *chars*, with nothing in it that a terminal would obey."""
    shown = bare(" ".join(text.split()) if len(text) <= chars else text[:chars] + "…")
    return shown if len(shown) <= chars else shown[: chars - 1] + "…"


def _escaped(json: str) -> str:
    """Return *json* with what a terminal would obey written as escapes."""
    if json.isprintable():
        return json
    return "".join(letter if letter.isprintable() else ascii_json(letter)[1:-1] for letter in json)


@cache
def _colored() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m" if _colored() else text


def _strong(text: str) -> str:
    return f"\x1b[36m{text}\x1b[0m" if _colored() else text
