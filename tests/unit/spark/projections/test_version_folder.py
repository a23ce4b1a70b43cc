from pathlib import Path

import pytest

from penstock.errors import BadParameter
from penstock.spark.projections.version_folder import NOTHING, RoundNote, VersionFolder, is_over, name_round, path_of

BEFORE = RoundNote(4, "rows-4-a", "rows-4-a", {"0": 40}, {})
NOW = RoundNote(5, "rows-5-b", "rows-5-b", {"0": 50}, {})


def test_rows_are_in_the_folder_of_their_version_under_a_name_that_nobody_else_gives() -> None:
    assert VersionFolder("/lake", "customers_v2").path("rows-1-a") == "/lake/customers_v2/rows-1-a"
    assert name_round(NOTHING).startswith("rows-1-")
    assert name_round(BEFORE).startswith("rows-5-")
    assert name_round(BEFORE) != name_round(BEFORE)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("positions-3", True),
        ("positions-4", False),
        ("positions-5", False),
        ("positions-6", False),
        ("rows-3-c", True),
        ("rows-4-a", False),
        ("rows-4-late", True),
        ("rows-5-b", False),
        ("rows-5-others", False),
        ("_SUCCESS", False),
        ("rows-of-mine", False),
        ("notes-1", False),
    ],
)
def test_last_two_rounds_and_foreign_files_are_kept(name: str, *, expected: bool) -> None:
    assert is_over(name, BEFORE, NOW) is expected


def test_the_round_before_stays_though_a_note_between_was_never_whole() -> None:
    now = RoundNote(6, "rows-6-d", "rows-5-b", {}, {})

    assert not is_over("positions-4", BEFORE, now)
    assert not is_over("rows-4-a", BEFORE, now)
    assert not is_over(
        "rows-5-b", RoundNote(6, "rows-6-d", "rows-5-b", {}, {}), RoundNote(7, "rows-7-c", "rows-7-c", {}, {})
    )


def test_a_path_is_no_pattern() -> None:
    assert path_of("s3a://lake/read model/") == "s3a://lake/read model"
    assert path_of(Path("/lake/")) == "/lake"
    for given in ("/lake/*", "/lake/{a,b}", "/lake/[1]"):
        with pytest.raises(BadParameter, match="a path without any of"):
            path_of(given)
    with pytest.raises(BadParameter, match="path is 5; allowed: the path of a folder"):
        path_of(5)  # type: ignore[arg-type]
