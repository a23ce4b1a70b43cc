from pathlib import Path

import msgspec
import pytest

from penstock.spark.landing import Landing, new_landing
from penstock.spark.zeroeventhub.landed_pages import LandedPages
from penstock.spark.zeroeventhub.places import Landed, Place
from penstock.wire.reader.page import FeedEvent

EVENTS = [FeedEvent(0, msgspec.Raw(b'{"n": %d}' % number)) for number in range(3)]
HERE = Place(5, 40, "a")


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return new_landing(str(tmp_path))


def test_a_page_that_has_landed_is_found_where_it_would_be_asked_for(landing: Landing) -> None:
    pages = LandedPages(landing, "all")
    behind = pages.add(0, HERE, EVENTS, "b", "http://x")

    assert behind == Place(6, 43, "b")
    assert pages.found(0, HERE) == behind
    assert [row["number"] for batch in landing.read("0", 5) for row in batch.to_pylist()] == [40, 41, 42]


def test_one_that_would_be_asked_for_otherwise_is_not(landing: Landing) -> None:
    LandedPages(landing, "all").add(0, HERE, EVENTS, "b", "http://x")

    assert LandedPages(landing, "some").found(0, HERE) is None
    assert LandedPages(landing, "all").found(0, HERE._replace(cursor="other")) is None
    assert LandedPages(landing, "all").found(0, Place(6, 43, "b")) is None
    assert LandedPages(landing, "all").found(1, HERE) is None


def test_pages_are_forgotten_below_an_offset(landing: Landing) -> None:
    pages = LandedPages(landing, "all")
    behind = pages.add(0, HERE, EVENTS, "b", "http://x")
    pages.add(0, behind, EVENTS, "c", "http://x")

    pages.forget(Landed(landing.id, {0: behind, 7: HERE}))

    assert pages.found(0, HERE) is None
    assert pages.found(0, behind) is not None
