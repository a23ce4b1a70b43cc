"""Hubs and consumers are killed at random, and hubs stand still past their leases.

No event is lost, none is sent again that was committed, order is kept. Nor are two streams ever
sent one partition at the same time. For minutes: `make test-all`.
"""

from pathlib import Path

from tests.exhaustive import examples
from tests.faults.watched import play
from tests.promises.scene import seeded

SECONDS = examples(8, 30)
STILL_SECONDS = 25.0


def test_three_hubs_on_postgresql_that_stand_still_past_their_leases_too(postgres_url: str, tmp_path: Path) -> None:
    play(postgres_url, 3, tmp_path, seeded(), STILL_SECONDS, pauses=True)


def test_one_hub_on_sqlite(tmp_path: Path) -> None:
    play(f"sqlite:///{tmp_path}/hub.db", 1, tmp_path, seeded(), SECONDS)
