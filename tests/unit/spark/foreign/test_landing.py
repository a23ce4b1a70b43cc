"""Landing pages: whole or not at all, and each where its number says."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import BadParameter, EventsLost
from penstock.spark.foreign.landing import Landing, file_system, new_landing
from tests.failing import has_code


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return new_landing(str(tmp_path))


def batch(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"data": list(values)})


def values(landing: Landing, number: int) -> list[list[str]]:
    return [each.column("data").to_pylist() for each in landing.read("0", number)]


def pages(folder: Path) -> list[str]:
    """Return the lanes and numbers of all pages of one landing."""
    [landing] = folder.iterdir()
    return sorted(f"{page.parent.relative_to(landing)}/{int(page.stem)}" for page in landing.rglob("*.arrow"))


def test_a_page_is_read_as_it_was_written(landing: Landing) -> None:
    landing.write("0", 7, [batch("a", "b"), batch("c")])

    assert values(landing, 7) == [["a", "b"], ["c"]]
    assert next(landing.read("0", 7)).schema == batch("a").schema


def test_a_page_may_have_no_rows(landing: Landing) -> None:
    landing.write("0", 0, [batch("a").slice(0, 0)])

    assert values(landing, 0) == [[]]


def test_a_page_takes_the_place_of_the_one_before(landing: Landing) -> None:
    landing.write("0", 0, [batch("a")])
    landing.write("0", 0, [batch("b")])

    assert values(landing, 0) == [["b"]]


def test_failed_write_keeps_the_previous_page(landing: Landing, tmp_path: Path) -> None:
    landing.write("0", 0, [batch("a")])

    with pytest.raises(ValueError, match="schema"):
        landing.write("0", 0, [batch("b"), pa.RecordBatch.from_pydict({"other": [1]})])

    assert values(landing, 0) == [["a"]]
    landing.forget("0", 1)
    assert list(tmp_path.rglob("*.*")) == [], "nor does it leave anything behind for long"


def test_reading_a_missing_page_raises_its_name(landing: Landing) -> None:
    with pytest.raises(
        EventsLost, check=has_code("landed-page-missing"), match=f"the page {landing.id}/0/3 in {landing.location}"
    ):
        list(landing.read("0", 3))


def test_pages_are_forgotten_below_a_number_in_their_lane_alone(landing: Landing, tmp_path: Path) -> None:
    for number in range(3):
        for lane in ("0", "1"):
            landing.write(lane, number, [batch("a")])
    landing.forget("0", 2)
    landing.forget("none", 2)

    assert pages(tmp_path) == ["0/2", "1/0", "1/1", "1/2"]


def test_two_queries_with_one_location_do_not_meet(landing: Landing) -> None:
    landing.write("0", 0, [batch("a")])

    with pytest.raises(EventsLost, check=has_code("landed-page-missing")):
        list(new_landing(landing.location).read("0", 0))


def test_landing_survives_pickling(landing: Landing) -> None:
    landing.write("0", 0, [batch("a")])

    assert values(pickle.loads(pickle.dumps(landing)), 0) == [["a"]]


@pytest.mark.parametrize(
    ("location", "kind", "path"),
    [
        ("/var/landing", "local", "/var/landing"),
        ("file:/var/landing", "local", "/var/landing"),
        ("file:///var/landing", "local", "/var/landing"),
        ("s3a://bucket/landing?region=eu-west-1", "s3", "bucket/landing"),
        ("gs://anonymous@bucket/landing", "gcs", "bucket/landing"),
    ],
)
def test_paths_are_as_hadoop_writes_them(location: str, kind: str, path: str) -> None:
    files, found = file_system(location)

    assert (files.type_name, found) == (kind, path)


@pytest.mark.parametrize("location", ["landing", "", "nowhere://x/y"])
def test_malformed_landing_location_is_refused(location: str) -> None:
    with pytest.raises(BadParameter, match=r"option landingLocation is .*; allowed: a path that driver and executors"):
        file_system(location)


def test_a_secret_in_a_location_is_not_shown() -> None:
    with pytest.raises(BadParameter) as told:
        file_system("nowhere://KEY:SECRET@lake/landing")
    assert "'nowhere://…@lake/landing'" in str(told.value)
    assert "SECRET" not in str(told.value)


def test_lanes_that_are_no_longer_needed_are_forgotten(landing: Landing, tmp_path: Path) -> None:
    for lane in ("0", "1/a", "1/b", "2/a"):
        landing.write(lane, 0, [batch("a")])

    assert landing.lanes() == {"0", "1", "2"}
    landing.forget_lanes(["0", "2", "of somebody who was quicker"])

    assert pages(tmp_path) == ["1/a/0", "1/b/0"]
    assert new_landing(str(tmp_path)).lanes() == set()
