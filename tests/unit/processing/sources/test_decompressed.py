import gzip
from pathlib import Path

import pytest
import zstandard

from penstock.processing.sources.decompressed import open_file

TEXT = b"".join(b"line %d\n" % number for number in range(100_000))


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("a", TEXT),
        ("a.gz", gzip.compress(TEXT[:999]) + gzip.compress(TEXT[999:])),
        ("a.zst", zstandard.compress(TEXT[:999]) + zstandard.compress(TEXT[999:])),
        ("b.zst", b""),
    ],
)
def test_what_was_compressed_comes_out(tmp_path: Path, name: str, raw: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(raw)
    with open_file(path) as file:
        assert b"".join(iter(file.readline, b"")) == (TEXT if raw else b"")


@pytest.mark.parametrize(("name", "compress"), [("a.gz", gzip.compress), ("a.zst", zstandard.compress)])
def test_what_is_cut_off_is_noticed(tmp_path: Path, name: str, compress: object) -> None:
    path = tmp_path / name
    path.write_bytes(compress(TEXT)[:-9])  # type: ignore[operator]
    with open_file(path) as file, pytest.raises((EOFError, OSError)):
        file.read()
