"""Hubs and consumers of a subscription are killed at random: no event is lost, none is sent again that is committed.

Order is kept, and no two streams are sent one partition at the same time.
"""

from pathlib import Path

import pytest

from tests.exhaustive import examples
from tests.faults.watched import play
from tests.promises.scene import seeded

SECONDS = examples(2, 30)
PAUSED_SECONDS = 25.0


@pytest.mark.usefixtures("short_lease")
def test_subscription_loses_no_event_after_kills_of_its_hubs_and_consumers(migrated_url: str, tmp_path: Path) -> None:
    """Two hubs share a database on PostgreSQL; on SQLite there is one."""
    play(migrated_url, 2 if migrated_url.startswith("postgres") else 1, tmp_path, seeded(), SECONDS)


@pytest.mark.exhaustive
def test_subscription_loses_no_event_after_pauses_of_its_hubs_past_their_leases(
    migrated_postgres_url: str, tmp_path: Path
) -> None:
    play(migrated_postgres_url, 3, tmp_path, seeded(), PAUSED_SECONDS, pauses=True)
