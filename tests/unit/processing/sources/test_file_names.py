import os
from pathlib import Path

import pytest

from penstock.errors import BadParameter
from penstock.processing.sources.file_names import FileNames


def test_the_name_without_links_is_chosen_whatever_comes_first(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "x").touch()
    (tmp_path / "a").symlink_to(tmp_path / "whole")
    assert FileNames([f"{tmp_path}/a/x", f"{tmp_path}/**/x"]).now() == [f"{tmp_path}/whole/x"]


def test_among_links_the_first_is_chosen_and_kept_as_long_as_it_is_there(tmp_path: Path) -> None:
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


def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert FileNames([f"{tmp_path}/*", f"{tmp_path}/none"]).now() == []


def test_a_name_that_cannot_stand_in_a_checkpoint_is_told(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.ndjson")).touch()
    with pytest.raises(BadParameter, match=r"udcff.ndjson.*; allowed: files whose names are UTF-8"):
        FileNames([f"{tmp_path}/*"]).now()
