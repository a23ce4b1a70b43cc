"""What clients accept, and how much they like each of it."""

import re
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request

from penstock.errors import NotAcceptable
from penstock.wire.query import shown

_WEIGHT: Final = re.compile(r"\d{0,3}(\.\d*)?", re.ASCII)
_LINES: Final = frozenset({
    *("application/x-ndjson", "application/ndjson", "application/jsonl", "application/jsonlines"),
    *("application/x-jsonlines", "application/x-json-stream", "application/stream+json", "application/json-seq"),
    *("text/x-ndjson", "application/json", "text/json"),
})  # fmt: skip
_JSON: Final = frozenset({"application/problem+json", "application/x.problem+json", *_LINES})
_ALIASES: Final[Mapping[str, frozenset[str]]] = {
    "application/json": _JSON,
    "application/x-ndjson": _LINES,
    "application/x-json-stream": _LINES | _JSON,
    "text/plain": frozenset({"application/openmetrics-text"}),
}
"""Names by which clients ask for a media type, beside its own; many send one name with all their requests."""


def weights(accept: str | None) -> dict[str, float]:
    """Return the weight of everything that `Accept`, or `Accept-Encoding`, names, in small letters (RFC 9110, 12.4.2).

    What has a weight that is no number from 0 on is left out; a weight above 1 is 1.

    >>> weights("gzip;q=0.5, Text/HTML; level=1; Q=0, br;q=much, zstd;q=inf")
    {'gzip': 0.5, 'text/html': 0.0}
    """
    found: dict[str, float] = {}
    for part in (accept or "").lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        given = next((each.removeprefix("q=").strip() for each in parameters if each.startswith("q=")), "1")
        if name and given not in ("", ".") and _WEIGHT.fullmatch(given):
            found[name] = min(1.0, float(given))
    return found


def choose_form(request: Request, *offered: str) -> str:
    """Return the media type of those *offered* that the client likes best (RFC 9110, 12.5.1).

    Of those that it likes equally, one that it names goes before one that a range such as `*/*` has, and one that it
    names first before others; then the order of *offered* decides. A client that names none at all takes each.

    Raises:
        NotAcceptable: the client takes none of them.
    """
    given = ", ".join(request.headers.getlist("accept"))
    liked = weights(given)
    if not liked:
        return offered[0]
    ranked = {each: _liking(each, liked) for each in offered}
    best = max(offered, key=ranked.__getitem__)
    if ranked[best][0] <= 0:
        raise NotAcceptable(accept=shown(given), allowed=", ".join(offered))
    return best


def _liking(media_type: str, liked: Mapping[str, float]) -> tuple[float, int, int]:
    """Return how a client likes a media type: by its weight, by how exactly it is named, and by how early."""
    places = {name: -number for number, name in enumerate(liked)}
    aliases = [name for name in liked if name in _ALIASES.get(media_type, ()) and liked[name] > 0]
    ranges = (f"{media_type.partition('/')[0]}/*", "*/*", "*")
    if media_type in liked:
        return liked[media_type], 3, places[media_type]
    if aliases:
        return max((liked[name], 2, places[name]) for name in aliases)
    return next(((liked[name], 1, 0) for name in ranges if name in liked), (0.0, 0, 0))
