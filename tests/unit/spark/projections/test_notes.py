import pytest

from penstock.spark.projections.version_folder import Note, Notes, newest_of

FOLDER = "file:///lake/run-7/customers_v1"


def test_the_newest_note_is_that_with_the_highest_number() -> None:
    lines = [(f"{FOLDER}/positions-{number}", f'{{"at": {number}}}') for number in (9, 11, 10)]

    assert newest_of(lines, "positions") == Note(11, {"at": 11})


def test_a_note_may_be_a_folder_with_a_file_in_it() -> None:
    assert newest_of([(f"{FOLDER}/positions-3/part-00000-5f-c000.txt", "{}")], "positions") == Note(3, {})


@pytest.mark.parametrize("line", ["", '{"at": 1', "1", "null"])
def test_incomplete_note_is_ignored(line: str) -> None:
    lines = [(f"{FOLDER}/positions-1", '{"at": 1}'), (f"{FOLDER}/positions-2", line)]

    assert newest_of(lines, "positions") == Note(1, {"at": 1})
    assert newest_of(lines[1:], "positions") is None


def test_of_two_notes_in_a_folder_the_same_one_wins_in_any_reading_order() -> None:
    both = [(f"{FOLDER}/positions-1/part-{part}.txt", f'{{"by": "{part}"}}') for part in "ab"]

    assert newest_of(both, "positions") == newest_of(both[::-1], "positions") == Note(1, {"by": "a"})


def test_files_that_are_no_notes_of_that_name_are_passed_over() -> None:
    names = ["rows-1-5f/part-0.parquet", "positions-1x", "positions-", "old-positions-2", "positions-3/a/b"]

    assert newest_of([(f"{FOLDER}/{name}", "{}") for name in names], "positions") is None


def test_note_with_a_non_ascii_name_is_found() -> None:
    path = Notes("/lake", "in-use-größe").path(2)

    assert path == "/lake/in-use-größe-2"
    assert newest_of([("file:///lake/in-use-gr%C3%B6%C3%9Fe-2", "{}")], "in-use-größe") == Note(2, {})
