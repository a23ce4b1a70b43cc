"""Content encodings: what bodies may be sent in, and what answers may be asked for in."""

import zlib
from collections.abc import Callable
from typing import Final, Protocol

import zstandard

from penstock.errors import BadParameter, BodyTooLarge, UnsupportedMediaType

GZIP_LEVEL: Final = 1
ZSTD_LEVEL: Final = 1


class Encoder(Protocol):
    """Compresses an answer piece by piece."""

    def compress(self, data: bytes, /) -> bytes:
        """Take more of the answer; return what is ready to be sent, possibly nothing."""

    def flush(self) -> bytes:
        """Return the rest."""


_ENCODERS: Final[dict[str, Callable[[], Encoder]]] = {
    "zstd": lambda: zstandard.ZstdCompressor(level=ZSTD_LEVEL).compressobj(),
    "gzip": lambda: zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS),
}


def choose_encoding(accept: str | None) -> str | None:
    """Return the encoding that a client likes best of those spoken here, zstd before gzip; None for none.

    >>> choose_encoding("gzip, deflate, zstd"), choose_encoding("gzip;q=0.5, zstd;q=0"), choose_encoding(None)
    ('zstd', 'gzip', None)
    """
    liked: dict[str, float] = {}
    for part in (accept or "").split(","):
        name, _, weight = part.strip().partition(";")
        try:
            liked[name.strip().lower()] = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
    best = max(_ENCODERS, key=lambda name: liked.get(name, 0.0))
    return best if liked.get(best, 0.0) > liked.get("identity", 0.0) * 0 else None


def encoder(name: str) -> Encoder:
    """Return a new encoder of one of the encodings that `choose_encoding` gives."""
    return _ENCODERS[name]()


def decode_body(body: bytes, encoding: str, bytes_max: int) -> bytes:
    """Return *body* decompressed.

    Raises:
        UnsupportedMediaType: the encoding is not spoken here.
        BadParameter: the body is not what its encoding says.
        BodyTooLarge: it would be larger than *bytes_max*.
    """
    if encoding not in _ENCODERS:
        raise UnsupportedMediaType(given=f"Content-Encoding {encoding[:40]}", allowed="gzip, zstd or none")
    try:
        if encoding == "gzip":
            inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
            decoded, whole = inflater.decompress(body, bytes_max + 1), inflater.eof
        else:
            reader = zstandard.ZstdDecompressor().stream_reader(body)
            decoded, whole = reader.read(bytes_max + 1), True
    except (zlib.error, zstandard.ZstdError) as error:
        raise BadParameter(
            parameter="Content-Encoding", value=encoding, allowed=f"a body that is {encoding}: {error}"
        ) from None
    if len(decoded) > bytes_max:
        raise BodyTooLarge(limit=bytes_max)
    if not whole:
        raise BadParameter(
            parameter="Content-Encoding", value=encoding, allowed=f"a whole {encoding} body; this one is cut off"
        )
    return decoded
