"""Lines of files: their names, decompression, whole lines, and the events that they make."""

import gzip
import os
from pathlib import Path

import pytest
import zstandard

from penstock.errors import BadParameter, EventsLost, InvalidRecord
from penstock.processing.sources import file as line_file_module
from penstock.processing.sources.file import FileNames, LineFile, LinePlace
from tests.failing import has_code


def test_file_has_its_name_without_links_else_the_first_link_while_that_exists(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "x", tmp_path / "folder"
    elsewhere.touch()
    (folder / "sub").mkdir(parents=True)
    (folder / "b").symlink_to(elsewhere)
    names = FileNames([f"{folder}/*", f"{folder}/none"])
    assert names.list_now() == [f"{folder}/b"], "folders and missing files are left out"
    (folder / "a").symlink_to(elsewhere)
    assert names.list_now() == [f"{folder}/b"]
    (folder / "b").unlink()
    assert names.list_now() == [f"{folder}/a"]
    assert FileNames([f"{folder}/*", f"{tmp_path}/*"]).list_now() == [f"{elsewhere}"]


def test_name_that_a_checkpoint_cannot_hold_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.ndjson")).touch()
    with pytest.raises(BadParameter, match=r"udcff.ndjson.*; allowed: files whose names are UTF-8"):
        FileNames([f"{tmp_path}/*"]).list_now()


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


@pytest.mark.parametrize("name", ["lines", "lines.gz", "lines.zst"])
def test_last_line_may_be_completed_later(tmp_path: Path, name: str) -> None:
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
    with pytest.raises(EventsLost, check=has_code("file-changed"), match="no line begins at byte 4"):
        LineFile(tmp_path / name, follow=False).read(found.end, 9)


@pytest.mark.parametrize(
    ("name", "raw"),
    [("a.gz", gzip.compress(b"1\n" * 9)[:12]), ("b.gz", b"these are lines\n"), ("c.zst", b"these are lines\n")],
    ids=["ends in the middle", "no gzip", "no zstd"],
)
def test_incomplete_compressed_file_is_named(tmp_path: Path, name: str, raw: bytes) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(InvalidRecord, check=has_code("invalid-line"), match=rf"{name}.*it cannot be read( on)?: "):
        LineFile(tmp_path / name, follow=False).read(LinePlace(), 9)


def test_missing_place_is_noticed(path: Path) -> None:
    for place, reason in (
        (LinePlace(20, 1), "shorter than 20 bytes"),
        (LinePlace(12, 1), "no line begins at byte 12"),
        (LinePlace(11, 4).behind(b"2\n# no\n\n22\n"), "other lines before byte 11"),
    ):
        with pytest.raises(EventsLost, check=has_code("file-changed"), match=reason):
            LineFile(path, follow=False).read(place, 1)
    path.unlink()
    with pytest.raises(EventsLost, check=has_code("file-changed"), match="it is gone"):
        LineFile(path, follow=False).read(LinePlace(2, 1), 1)


def test_line_without_an_end_does_not_fill_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file_module, "LINE_BYTES_MAX", 2)
    for follow in (False, True):
        file = LineFile(path, follow=follow)
        with pytest.raises(InvalidRecord, check=has_code("invalid-line"), match="line 2: it is longer than 2 bytes"):
            file.read(file.read(LinePlace(), 9).end, 9)


def test_little_is_read_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file_module, "BYTES_AT_ONCE", 2)
    file = LineFile(path, follow=False)
    found = file.read(LinePlace(), 9)
    assert ([line.raw for line in found.lines], found.is_last) == ([b"1"], False)
    file.close()


def test_line_place_is_decoded_from_its_text() -> None:
    for place in (LinePlace(1024, 17), LinePlace(1024, 17).behind(b"a line")):
        assert LinePlace.decode(place.encode()) == place
    assert LinePlace.decode("1024:17") == LinePlace(1024, 17)
    for wrong in ("1:x", "1:2#x", "1", ""):
        with pytest.raises(BadParameter, match=f"position is '{wrong}'; allowed: OFFSET:LINES#MARK"):
            LinePlace.decode(wrong)
