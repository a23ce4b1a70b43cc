"""Files as they are, or what was compressed into them."""

import gzip
import io
import sys
from pathlib import Path
from typing import IO, Final, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


ZstdError = zstd.ZstdError
COMPRESSED: Final = (".gz", ".zst", ".zstd")
"""What the names of compressed files end in."""
_READ_BYTES: Final = 1 << 17


def is_compressed(path: Path) -> bool:
    """Tell by the name of a file whether it is compressed.

    >>> is_compressed(Path("events.ndjson.gz")), is_compressed(Path("events.ndjson"))
    (True, False)
    """
    return path.suffix in COMPRESSED


def open_file(path: Path) -> IO[bytes]:
    """Open a file, and have what was compressed decompressed.

    Raises:
        OSError: it cannot be opened; or, as it is read, it is no gzip.
        EOFError: (as it is read) it ends in the middle.
        zstd.ZstdError: (as it is read) it is no zstd.
    """
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    file = path.open("rb")
    return io.BufferedReader(_Zstd(file), _READ_BYTES) if is_compressed(path) else file


class _Zstd(io.RawIOBase):
    """What comes out of frames of zstd; it is noticed where they end in the middle."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._frame: zstd.ZstdDecompressor | None = None
        self._left = b""
        self._out = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # It is what a BufferedReader has.
        while not self._out:
            given = self._left or self._file.read(_READ_BYTES)
            if not given:
                if self._frame is not None:
                    raise EOFError("it ends in the middle of a frame")
                return 0
            if self._frame is None:
                self._frame = zstd.ZstdDecompressor()
            self._left = b""
            self._out = self._frame.decompress(given)
            if self._frame.eof:
                self._left, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._out))
        buffer[:count] = self._out[:count]
        self._out = self._out[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
