import gzip
from pathlib import Path

import pytest
import zstandard

from penstock.errors import FileChanged, InvalidLine
from penstock.processing.sources import line_file as line_file_module
from penstock.processing.sources.line_file import LineFile
from penstock.processing.sources.line_place import LinePlace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_bytes(b"1\n# no\n\n22\n333")
    return path


def test_lines_are_read_on_from_any_place(path: Path) -> None:
    file = LineFile(path, follow=False)
    first = file.read(LinePlace(), 1)
    assert ([line.raw for line in first.lines], first.end, first.is_last) == (
        [b"1"], LinePlace(2, 1).behind(b"1\n"), False,
    )  # fmt: skip
    assert file.is_open
    rest = file.read(first.end, 9)
    assert [(line.raw, line.place) for line in rest.lines] == [(b"22", LinePlace(8, 3)), (b"333", LinePlace(11, 4))]
    assert (rest.end, rest.is_last, file.is_open, file.has_more(rest.end)) == (
        LinePlace(14, 5).behind(path.read_bytes()), True, False, False,
    )  # fmt: skip
    assert [line.raw for line in file.read(LinePlace(8, 3), 1).lines] == [b"22"], "and again"
    file.close()


def test_one_that_grows_ends_with_its_last_whole_line(path: Path) -> None:
    file = LineFile(path, follow=True)
    found = file.read(LinePlace(), 9)
    assert ([line.raw for line in found.lines], found.end.offset, found.is_last) == ([b"1", b"22"], 11, True)
    assert not file.has_more(found.end)
    with path.open("ab") as more:
        more.write(b"3\n")
    assert file.has_more(found.end)
    assert [line.raw for line in file.read(found.end, 9).lines] == [b"3333"]


@pytest.mark.parametrize("name", ["lines", "lines.gz", "lines.zst"])
def test_the_last_line_may_be_given_its_end_later(tmp_path: Path, name: str) -> None:
    def written(data: bytes) -> None:
        pack = {"lines": bytes, "lines.gz": gzip.compress, "lines.zst": zstandard.ZstdCompressor().compress}[name]
        (tmp_path / name).write_bytes(pack(data))

    written(b"1\n22")
    found = LineFile(tmp_path / name, follow=False).read(LinePlace(), 9)
    assert ([line.raw for line in found.lines], found.end.offset) == ([b"1", b"22"], 4)
    written(b"1\n22\n333\n")
    file = LineFile(tmp_path / name, follow=False)
    more = file.read(found.end, 9)
    assert [(line.raw, line.place) for line in more.lines] == [(b"333", LinePlace(5, 2))]
    assert [line.raw for line in file.read(more.end, 9).lines] == []
    written(b"1\n22333\n")
    with pytest.raises(FileChanged, match="no line begins at byte 4"):
        LineFile(tmp_path / name, follow=False).read(found.end, 9)


@pytest.mark.parametrize(
    ("name", "raw"),
    [("a.gz", gzip.compress(b"1\n" * 9)[:12]), ("b.gz", b"these are lines\n"), ("c.zst", b"these are lines\n")],
    ids=["ends in the middle", "no gzip", "no zstd"],
)
def test_a_file_that_was_not_compressed_whole_is_named(tmp_path: Path, name: str, raw: bytes) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(InvalidLine, match=rf"{name}.*it cannot be read( on)?: "):
        LineFile(tmp_path / name, follow=False).read(LinePlace(), 9)


def test_a_place_that_is_not_there_any_more_is_noticed(path: Path) -> None:
    for place, reason in (
        (LinePlace(20, 1), "shorter than 20 bytes"),
        (LinePlace(12, 1), "no line begins at byte 12"),
        (LinePlace(11, 4).behind(b"2\n# no\n\n22\n"), "other lines before byte 11"),
    ):
        with pytest.raises(FileChanged, match=reason):
            LineFile(path, follow=False).read(place, 1)
    path.unlink()
    with pytest.raises(FileChanged, match="it is gone"):
        LineFile(path, follow=False).read(LinePlace(2, 1), 1)


def test_a_line_without_an_end_does_not_fill_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file_module, "LINE_BYTES_MAX", 2)
    for follow in (False, True):
        file = LineFile(path, follow=follow)
        with pytest.raises(InvalidLine, match="line 2: it is longer than 2 bytes"):
            file.read(file.read(LinePlace(), 9).end, 9)


def test_not_much_is_read_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file_module, "BYTES_AT_ONCE", 2)
    file = LineFile(path, follow=False)
    found = file.read(LinePlace(), 9)
    assert ([line.raw for line in found.lines], found.is_last) == ([b"1"], False)
    file.close()
