"""A plugin for the pytest of new projects: it forks their hubs, which takes a tenth of the time."""

from penstock.testing.live_hub import LiveHub
from tests.forks import FORKS

LiveHub.start_penstock = FORKS.hub  # type: ignore[method-assign]


def pytest_unconfigure() -> None:
    """End what forks."""
    FORKS.close()
