"""Caching of pages by HTTP caches (RFC 9111): which pages they may keep, for how long, and the tags of these pages.

A page that ends before the end of its feed is the same whenever it is asked for, until events of its partitions are
removed. Its tag depends on the number of removals, so that a hub confirms a kept page (304) without reading an event.

Invariants:
    A tag never survives the event type, a change of its definition, a removal of events, a change of the encoding, or
    that events are sealed: chunks of files, which are batches of Arrow, may end elsewhere.
    Shared caches may keep a page only while every caller may read its event type.
    A cache keeps a page for `cache_ttl_seconds` at most: removed events are gone from all caches then.
"""

import platform
import zlib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from math import inf
from typing import Final

import msgspec

from penstock import __version__
from penstock.core.log.cursor import FIRST, LAST
from penstock.hub.log.read import PageReading

FIRST_SECONDS: Final = 10.0
"""How long caches may keep a page from `_first`: retention moves its beginning."""
NO_STORE: Final[Mapping[str, str]] = {"cache-control": "no-store"}
VARY: Final = "Accept, Accept-Encoding"


def _find_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


_SOFTWARE: Final = (
    __version__,
    platform.python_version(),
    zlib.ZLIB_RUNTIME_VERSION,
    *map(_find_version, ("backports.zstd", "pyarrow")),
)
"""The versions of all that the bytes of a page depend on."""


def find_fresh_seconds(cursors: Iterable[str], until: Iterable[str], *, waits: bool) -> float:
    """Return how long the page of a request may be kept at most: 0 if its address does not determine it.

    >>> cursor = "1-f4ec22d8-1-1-1-0-7"
    >>> [find_fresh_seconds([first], until, waits=False) for first, until in (
    ...     (cursor, []), (cursor, [cursor]), (cursor, ["_last"]), ("_first", []), ("_last", []))]
    [inf, inf, 0.0, 10.0, 0.0]
    """
    cursors = [*cursors]
    if waits or LAST in cursors or not {FIRST, LAST}.isdisjoint(until):
        return 0.0
    return FIRST_SECONDS if FIRST in cursors else inf


def make_tag(reading: PageReading, media_type: str, encoding: str | None) -> str:
    """Return the entity tag of a page that has just been opened, in one representation (RFC 9110, 8.8.3).

    It is strong: the bytes of two pages with one tag are the same. Only a page that is being sent while events of it
    are removed may lack these already.
    """
    feed = reading.feed
    tracks = [
        [
            [track.view.n, track.view.partition],
            *(tuple(each.items()) for each in (track.offsets, track.quotas, track.removals, track.sealed)),
        ]
        for track in reading.tracks
    ]
    event_type = (feed.name, feed.id, feed.epoch, feed.revision, feed.created_at, feed.partition_ids)
    given = msgspec.json.encode((_SOFTWARE, event_type, tracks, media_type, encoding))
    return f'"{blake2b(given, digest_size=16).hexdigest()}"'


def is_listed(tag: str, conditions: Sequence[str]) -> bool:
    """Return whether a request with these headers `If-None-Match` has the page with *tag* already.

    Tags are compared weakly (RFC 9110, 13.1.2): proxies that compress a page make its tag weak.

    >>> [is_listed('"a"', each) for each in ([], ['"b", W/"a"'], ["*"], ["a"], ['"b"', '"c"'])]
    [False, True, True, False, False]
    """
    given = [each.strip().removeprefix("W/") for each in ",".join(conditions).split(",")]
    return tag in given or "*" in given


def cache_headers(tag: str, seconds: float, fresh_seconds: float, *, is_public: bool) -> dict[str, str]:
    """Return the headers of a page that caches may keep for *seconds*, or for *fresh_seconds* if that is less.

    A page that is not *public* belongs to its caller alone: caches that are shared may not keep it.

    >>> cache_headers('"a"', 3600.0, inf, is_public=True)["cache-control"]
    'public, max-age=3600, must-revalidate, immutable'
    >>> cache_headers('"a"', 3600.0, FIRST_SECONDS, is_public=False)
    {'etag': '"a"', 'cache-control': 'private, max-age=10, must-revalidate', 'vary': 'Accept, Accept-Encoding, Authorization'}
    """  # noqa: E501 - an answer of Python's is one line
    words = ["public" if is_public else "private", f"max-age={int(min(seconds, fresh_seconds))}", "must-revalidate"]
    if fresh_seconds == inf:
        words.append("immutable")
    return {"etag": tag, "cache-control": ", ".join(words), "vary": VARY if is_public else f"{VARY}, Authorization"}
