"""Content encodings: what bodies may be sent in, and what answers may be asked for in."""

import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

import zstandard

from penstock.errors import BadParameter, BodyTooLarge, UnsupportedMediaType
from penstock.server.accept import weights

GZIP_LEVEL: Final = 1
ZSTD_LEVEL: Final = 1
DECODE_STEP: Final = 1 << 10
"""So little is decompressed at once that a bomb is noticed while it is small: zstd makes 128 KiB of four bytes."""


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

_OTHER_NAMES: Final = {"x-gzip": "gzip"}
"""Names that mean the same encoding (RFC 9110, 8.4.1.3)."""

_WHOLE: Final = {"zstd": zstandard.COMPRESSOBJ_FLUSH_BLOCK, "gzip": zlib.Z_SYNC_FLUSH}
"""How each is told to keep nothing back."""


def choose_encoding(accept: str | None) -> str | None:
    """Return the encoding that a client likes best of those spoken here, zstd before gzip; None for none.

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
    """Compresses a stream so that what has been sent can be read at once, whatever comes after it and when."""

    def __init__(self, name: str) -> None:
        """Begin with one of the encodings that `choose_encoding` gives."""
        self._name = name
        self._encode: Any = _ENCODERS[name]()

    def compress(self, data: bytes) -> bytes:
        """Return *data* compressed, all of it."""
        whole: bytes = self._encode.compress(data) + self._encode.flush(_WHOLE[self._name])
        return whole

    def end(self) -> bytes:
        """Return what says that nothing follows."""
        rest: bytes = self._encode.flush()
        return rest


class Decoder(Protocol):
    """Decompresses one member of a gzip body, or one frame of a zstd body."""

    @property
    def eof(self) -> bool:
        """Whether the member has come to its end."""

    @property
    def unused_data(self) -> bytes:
        """What came after its end."""

    def decompress(self, data: bytes, /) -> bytes:
        """Take more of the body; return what it says."""


_DECODERS: Final[dict[str, Callable[[], Decoder]]] = {
    "zstd": lambda: zstandard.ZstdDecompressor().decompressobj(),
    "gzip": lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
}


def decode_body(body: bytes, encoding: str, bytes_max: int) -> bytes:
    """Return *body* decompressed, every member of it: `cat a.gz b.gz` is a gzip body too.

    Raises:
        UnsupportedMediaType: the encoding is not spoken here.
        BadParameter: the body is not what its encoding says, or not all of it.
        BodyTooLarge: it would be larger than *bytes_max*; not much more than that is held.
    """
    encoding = _OTHER_NAMES.get(encoding, encoding)
    if encoding not in _DECODERS:
        raise UnsupportedMediaType(given=f"Content-Encoding {encoding[:40]}", allowed="gzip, zstd or none")
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
                raise BodyTooLarge(limit=bytes_max)
    except (zlib.error, zstandard.ZstdError) as error:
        allowed = f"a body that is {encoding}: {error}"
        raise BadParameter(parameter="Content-Encoding", value=encoding, allowed=allowed) from None
    if not decoder.eof:
        allowed = f"a whole {encoding} body; this one is cut off"
        raise BadParameter(parameter="Content-Encoding", value=encoding, allowed=allowed)
    return b"".join(decoded)
