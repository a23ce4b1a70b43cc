"""Temporary files of a test run lie in memory where that has room."""

import os
import tempfile
from pathlib import Path

import pytest

from tests import temporary
from tests.temporary import find_memory


def test_memory_is_used_where_it_has_room(tmp_path: Path) -> None:
    assert find_memory({}, tmp_path, 0) == tmp_path


def test_memory_without_room_or_beside_a_chosen_directory_is_not_used(tmp_path: Path) -> None:
    assert find_memory({}, tmp_path, 1 << 60) is None
    assert find_memory({"TMPDIR": "/var/tmp"}, tmp_path, 0) is None
    assert find_memory({}, tmp_path / "missing", 0) is None


def test_process_and_its_children_put_files_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "find_memory", lambda _: tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "/var/tmp")

    temporary.use_memory()

    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(tmp_path)
