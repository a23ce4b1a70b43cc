"""Two minutes of kills under load, with three hubs on PostgreSQL: see the short form in tests/faults."""

from pathlib import Path

import pytest

from tests.faults.watched import play
from tests.promises.scene import seeded

SECONDS = 120.0


@pytest.mark.exhaustive
def test_subscriptions_of_three_hubs_survive_two_minutes_of_kills(postgres_url: str, tmp_path: Path) -> None:
    play(postgres_url, 3, tmp_path, seeded(), SECONDS)


@pytest.mark.exhaustive
def test_subscriptions_of_three_hubs_survive_pauses_longer_than_their_leases(postgres_url: str, tmp_path: Path) -> None:
    play(postgres_url, 3, tmp_path, seeded(), SECONDS, pauses=True)
