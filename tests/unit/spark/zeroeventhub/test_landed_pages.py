from pathlib import Path

import msgspec
import pytest

from penstock.errors import EventsLost
from penstock.spark.landing import Landing, new_landing
from penstock.spark.zeroeventhub.landed_pages import LandedPages
from penstock.spark.zeroeventhub.places import Landed, Place
from penstock.wire.log.reader.pages import FeedEvent
from tests.failing import has_code

EVENTS = [FeedEvent(0, msgspec.Raw(b'{"n": %d}' % number)) for number in range(3)]
HERE = Place(5, 40, "a")


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return new_landing(str(tmp_path))


def numbers(landing: Landing, lane: str, page: int) -> list[int]:
    return [row["number"] for batch in landing.read(lane, page) for row in batch.to_pylist()]


def test_a_page_lands_where_its_partition_is_and_leads_on(landing: Landing) -> None:
    assert LandedPages(landing, "r").add(0, HERE, EVENTS, "b", "http://x") == Place(6, 43, "b")
    assert numbers(landing, "r/0", 5) == [40, 41, 42]


def test_runs_do_not_meet(landing: Landing) -> None:
    """A driver that was taken for dead may land pages that the one after it has landed, too."""
    LandedPages(landing, "new").add(0, HERE, EVENTS, "b", "http://x")
    LandedPages(landing, "old").add(0, HERE, EVENTS[:1], "b", "http://x")

    assert numbers(landing, "new/0", 5) == [40, 41, 42]


def test_pages_are_forgotten_below_an_offset(landing: Landing) -> None:
    pages = LandedPages(landing, "r")
    behind = pages.add(0, HERE, EVENTS, "b", "http://x")
    pages.add(0, behind, EVENTS, "c", "http://x")

    pages.forget(Landed(landing.id, "r", {0: behind, 7: HERE}))

    with pytest.raises(EventsLost, check=has_code("landed-page-missing")):
        numbers(landing, "r/0", 5)
    assert numbers(landing, "r/0", 6) == [43, 44, 45]
