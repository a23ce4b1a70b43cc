"""Lines of files: their names, decompression, whole lines, and the events that they make."""

import gzip
import os
from pathlib import Path

import pytest
import zstandard

from penstock.errors import BadParameter, EventsLost, InvalidRecord
from penstock.processing.sources import line_file as line_file_module
from penstock.processing.sources.decompressed import open_file
from penstock.processing.sources.file_names import FileNames
from penstock.processing.sources.line_events import LineEvents
from penstock.processing.sources.line_file import Line, LineFile
from penstock.processing.sources.line_place import LinePlace
from tests.failing import has_code


def test_name_without_links_is_chosen_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "x").touch()
    (tmp_path / "a").symlink_to(tmp_path / "whole")
    assert FileNames([f"{tmp_path}/a/x", f"{tmp_path}/**/x"]).now() == [f"{tmp_path}/whole/x"]


def test_first_of_several_links_is_chosen_and_kept_while_it_exists(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "x", tmp_path / "folder"
    elsewhere.touch()
    folder.mkdir()
    (folder / "b").symlink_to(elsewhere)
    names = FileNames([f"{folder}/*"])
    assert names.now() == [f"{folder}/b"]
    (folder / "a").symlink_to(elsewhere)
    assert names.now() == [f"{folder}/b"]
    (folder / "b").unlink()
    assert names.now() == [f"{folder}/a"]


def test_files_of_one_content_are_two(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("1")
    assert FileNames([f"{tmp_path}/*"]).now() == [f"{tmp_path}/a", f"{tmp_path}/b"]


def test_directories_and_missing_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert FileNames([f"{tmp_path}/*", f"{tmp_path}/none"]).now() == []


def test_name_that_a_checkpoint_cannot_hold_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.ndjson")).touch()
    with pytest.raises(BadParameter, match=r"udcff.ndjson.*; allowed: files whose names are UTF-8"):
        FileNames([f"{tmp_path}/*"]).now()


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
def test_compressed_file_is_read_decompressed(tmp_path: Path, name: str, raw: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(raw)
    with open_file(path) as file:
        assert b"".join(iter(file.readline, b"")) == (TEXT if raw else b"")


@pytest.mark.parametrize(("name", "compress"), [("a.gz", gzip.compress), ("a.zst", zstandard.compress)])
def test_truncated_compressed_file_is_noticed(tmp_path: Path, name: str, compress: object) -> None:
    path = tmp_path / name
    path.write_bytes(compress(TEXT)[:-9])  # type: ignore[operator]
    with open_file(path) as file, pytest.raises((EOFError, OSError)):
        file.read()


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


def test_growing_file_ends_with_its_last_whole_line(path: Path) -> None:
    file = LineFile(path, follow=True)
    found = file.read(LinePlace(), 9)
    assert ([line.raw for line in found.lines], found.end.offset, found.is_last) == ([b"1", b"22"], 11, True)
    assert not file.has_more(found.end)
    with path.open("ab") as more:
        more.write(b"3\n")
    assert file.has_more(found.end)
    assert [line.raw for line in file.read(found.end, 9).lines] == [b"3333"]


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


def test_line_is_an_event_at_its_first_byte() -> None:
    event = LineEvents(["id", "n"], ["type"]).event(Line(LinePlace(100, 3), b'{"id":"a","n":1,"type":"x"}'), "f")

    assert (event.stream, event.index, event.kind, event.tranche) == ("a-1", 100, "x", "f")
    assert (event.raw, event.data["n"]) == (b'{"id":"a","n":1,"type":"x"}', 1)


@pytest.mark.parametrize("raw", [b"{", b'"\xff"', b"[" * 100_000, b"1", b'{"id":true}'])
def test_malformed_line_is_named(raw: bytes) -> None:
    with pytest.raises(InvalidRecord, check=has_code("invalid-line"), match="f, line 4: "):
        LineEvents(["id"], None).event(Line(LinePlace(100, 3), raw), "f")


def test_line_place_is_decoded_from_its_text() -> None:
    for place in (LinePlace(1024, 17), LinePlace(1024, 17).behind(b"a line")):
        assert LinePlace.decode(place.encode()) == place
    assert LinePlace.decode("1024:17") == LinePlace(1024, 17)
    for wrong in ("1:x", "1:2#x", "1", ""):
        with pytest.raises(BadParameter, match=f"position is '{wrong}'; allowed: OFFSET:LINES#MARK"):
            LinePlace.decode(wrong)
