"""Content negotiation: the media types and content encodings of answers, and the encodings of request bodies."""

import re
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, Protocol

from starlette.requests import Request

from penstock.errors import BadParameter, RequestTooLarge, UnsupportedFormat
from penstock.wire.query import make_printable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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

CHOICES_KEPT: Final = 64
"""For so many headers it is remembered what was chosen: a client sends the same one with each of its requests."""


def weights(accept: str | None) -> dict[str, float]:
    """Return the weights of the names in `Accept` or `Accept-Encoding`, in small letters (RFC 9110, 12.4.2).

    A name whose weight is no number from 0 on is left out; a weight above 1 is 1.

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
        UnsupportedFormat: the client takes none of them.
    """
    given = ", ".join(request.headers.getlist("accept"))
    best = _choose_offered(given, offered)
    if best is None:
        raise UnsupportedFormat.of("not-acceptable", accept=make_printable(given), allowed=", ".join(offered))
    return best


@lru_cache(CHOICES_KEPT)
def _choose_offered(accept: str, offered: tuple[str, ...]) -> str | None:
    """Return what a client that sends *accept* likes best of *offered*; None if it takes none of them."""
    liked = weights(accept)
    if not liked:
        return offered[0]
    ranked = {each: _rank(each, liked) for each in offered}
    best = max(offered, key=ranked.__getitem__)
    return best if ranked[best][0] > 0 else None


def prefers(request: Request, media_type: str, *offered: str) -> bool:
    """Return whether the client likes *media_type* better than those *offered*; one that takes anything does not."""
    if f"{media_type.partition('/')[0]}/" not in request.headers.get("accept", "").lower():
        return False
    try:
        return choose_form(request, *offered, media_type) == media_type
    except UnsupportedFormat:
        return False


def _rank(media_type: str, liked: Mapping[str, float]) -> tuple[float, int, int]:
    """Return a client's preference for a media type: its weight, how exactly it is named, and how early."""
    places = {name: -number for number, name in enumerate(liked)}
    aliases = [name for name in liked if name in _ALIASES.get(media_type, ()) and liked[name] > 0]
    ranges = (f"{media_type.partition('/')[0]}/*", "*/*", "*")
    if media_type in liked:
        return liked[media_type], 3, places[media_type]
    if aliases:
        return max((liked[name], 2, places[name]) for name in aliases)
    return next(((liked[name], 1, 0) for name in ranges if name in liked), (0.0, 0, 0))


GZIP_LEVEL: Final = 1
ZSTD_LEVEL: Final = 1
DECODE_STEP: Final = 1 << 10
"""Bytes that are decompressed at once: few, to notice a bomb while it is small; zstd makes 128 KiB of four bytes."""


class Encoder(Protocol):
    """Compresses an answer piece by piece."""

    def compress(self, data: bytes, /) -> bytes:
        """Take more of the answer; return the bytes that are ready to be sent, possibly none."""

    def flush(self) -> bytes:
        """Return the rest."""


_ENCODERS: Final[dict[str, Callable[[], Encoder]]] = {
    "zstd": lambda: zstd.ZstdCompressor(level=ZSTD_LEVEL),
    "gzip": lambda: zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS),
}

_OTHER_NAMES: Final = {"x-gzip": "gzip"}
"""Names that mean the same encoding (RFC 9110, 8.4.1.3)."""

_WHOLE: Final = {"zstd": zstd.ZstdCompressor.FLUSH_BLOCK, "gzip": zlib.Z_SYNC_FLUSH}
"""The flush mode of each encoding that keeps nothing back."""


@lru_cache(CHOICES_KEPT)
def choose_encoding(accept: str | None) -> str | None:
    """Return the encoding that a client prefers of those supported, zstd before gzip; None for none.

    >>> choose_encoding("gzip, deflate, zstd"), choose_encoding("x-gzip;q=0.5, zstd;q=0"), choose_encoding("deflate")
    ('zstd', 'gzip', None)
    """
    given = weights(accept)
    liked = {"identity": 0.0} | {_OTHER_NAMES.get(name, name): weight for name, weight in given.items()}
    best = max(_ENCODERS, key=lambda name: liked.get(name, 0.0))
    return best if liked.get(best, 0.0) > 0 and liked[best] >= liked["identity"] else None


def encoder(name: str) -> Encoder:
    """Return a new encoder of one of the encodings that `choose_encoding` gives."""
    return _ENCODERS[name]()


class StreamEncoder:
    """Compresses a stream so that a reader can decompress all that has arrived, whenever more follows."""

    def __init__(self, name: str) -> None:
        """Begin with one of the encodings that `choose_encoding` gives."""
        self._name = name
        self._encode: Any = _ENCODERS[name]()

    def compress(self, data: bytes) -> bytes:
        """Return *data* compressed, all of it."""
        whole: bytes = self._encode.compress(data) + self._encode.flush(_WHOLE[self._name])
        return whole

    def end(self) -> bytes:
        """Return the end of the compressed stream."""
        rest: bytes = self._encode.flush()
        return rest


class Decoder(Protocol):
    """Decompresses one member of a gzip body, or one frame of a zstd body."""

    @property
    def eof(self) -> bool:
        """True at the end of the member."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the member."""

    def decompress(self, data: bytes, /) -> bytes:
        """Take more of the body; return it decompressed."""


_DECODERS: Final[dict[str, Callable[[], Decoder]]] = {
    "zstd": zstd.ZstdDecompressor,
    "gzip": lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
}


def decode_body(body: bytes, encoding: str, bytes_max: int) -> bytes:
    """Return *body* decompressed, every member of it: `cat a.gz b.gz` is a gzip body too.

    Raises:
        UnsupportedFormat: the encoding is not supported.
        BadParameter: the body is not in its encoding, or cut off.
        RequestTooLarge: it would be larger than *bytes_max*; not much more than that is held.
    """
    encoding = _OTHER_NAMES.get(encoding, encoding)
    if encoding not in _DECODERS:
        raise UnsupportedFormat.of(
            "unsupported-media-type", given=f"Content-Encoding {encoding[:40]}", allowed="gzip, zstd or none"
        )
    decoded, size, at = [], 0, 0
    decoder = _DECODERS[encoding]()
    try:
        while at < len(body):
            if decoder.eof:
                decoder = _DECODERS[encoding]()
            step = body[at : at + DECODE_STEP]
            decoded.append(decoder.decompress(step))
            at += len(step) - len(decoder.unused_data)
            size += len(decoded[-1])
            if size > bytes_max:
                raise RequestTooLarge.of("body-too-large", limit=bytes_max)
    except (zlib.error, zstd.ZstdError) as error:
        allowed = f"a body that is {encoding}: {error}"
        raise BadParameter(parameter="Content-Encoding", value=encoding, allowed=allowed) from None
    if not decoder.eof:
        allowed = f"a whole {encoding} body; this one is cut off"
        raise BadParameter(parameter="Content-Encoding", value=encoding, allowed=allowed)
    return join_pieces(decoded)


def join_pieces(pieces: Iterable[bytes]) -> bytes:
    """Return *pieces* as one; unlike `bytes.join`, it lets other threads go on after each of them.

    >>> join_pieces([b"ab", b"", b"c"])
    b'abc'
    """
    found = list(pieces)
    file = BytesIO(bytes(sum(map(len, found))))  # Memory that is not touched before it is written to.
    for each in found:
        file.write(each)
    return file.getvalue()  # It is not copied.
