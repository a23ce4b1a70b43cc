"""Databases that cannot be opened are told with the reason, and what to do."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.errors import DatabaseUnavailable
from penstock.processing import DatabaseCheckpoints, MemorySource, Projection
from penstock.processing.connecting import connector, transaction


@dataclass
class Count:
    """Of events."""

    n: int = 0


def counted(state: Count, _: object) -> Count:
    return Count(state.n + 1)


def test_a_file_in_a_directory_that_is_not_there_is_told_with_that_directory(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/missing/x.db"
    told = rf"missing/x\.db cannot be opened: there is no directory {tmp_path}/missing; create it, or correct the name"

    with pytest.raises(DatabaseUnavailable, match=told):
        DatabaseCheckpoints(url, "mailer").positions()
    with pytest.raises(DatabaseUnavailable, match=told):
        Projection("counts", Count, counted).inline(MemorySource(), url)
    (tmp_path / "missing").mkdir()
    assert DatabaseCheckpoints(url, "mailer").positions() == {}


def test_a_directory_is_told_from_a_file(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="it is a directory; name a file in it"):
        connector(f"sqlite:///{tmp_path}")()


def test_a_server_that_does_not_answer_is_told_in_one_line() -> None:
    with (
        pytest.raises(DatabaseUnavailable, match=r"the database cannot be used now: .*refused") as told,
        transaction(connector("postgresql://me:secret@127.0.0.1:1/none")),
    ):
        pass
    assert "\n" not in str(told.value)
    assert "secret" not in str(told.value)
