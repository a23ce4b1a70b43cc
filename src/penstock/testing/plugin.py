"""Fixtures for tests of hub clients. pytest discovers them where Penstock is installed.

    penstock_hub      a live hub on a SQLite database of the test's own
    penstock_memory   streams in memory, to which a test appends
    penstock_clock    the time, which stands still until the test moves it
    penstock_run      makes processors that run step by step, by that time

pytest loads this before anything else, so slow modules are imported only when a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from penstock.processing.handlers import Handler
    from penstock.processing.sources import MemorySource, Source
    from penstock.testing.clock import VirtualClock
    from penstock.testing.live_hub import LiveHub
    from penstock.testing.processing import VirtualInline

__all__ = ["Run", "penstock_clock", "penstock_hub", "penstock_memory", "penstock_run"]


class Run(Protocol):
    """Makes a processor that runs step by step."""

    def __call__(self, handler: Handler, source: Source | None = None, **options: Any) -> VirtualInline:
        """Return one that reads *source*, by default `penstock_memory`; *options* are those of `VirtualInline`."""
        ...


@pytest.fixture
def penstock_hub(tmp_path: Path) -> Iterator[LiveHub]:
    """A live hub on a SQLite database of the test's own; what it logs is in `penstock.log` beside it."""
    from penstock.testing.live_hub import live_hub

    with live_hub(f"sqlite:///{tmp_path}/penstock.db", log=tmp_path / "penstock.log") as hub:
        yield hub


@pytest.fixture
def penstock_memory() -> MemorySource:
    """Streams in memory, to which the test appends."""
    from penstock.processing.sources import MemorySource

    return MemorySource()


@pytest.fixture
def penstock_clock() -> VirtualClock:
    """The time, which stands still until the test moves it."""
    from penstock.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def penstock_run(penstock_memory: MemorySource, penstock_clock: VirtualClock) -> Run:
    """Makes processors that run step by step, by `penstock_clock`; what they read is `penstock_memory` unless given."""
    from penstock.testing.processing import VirtualInline

    def run(handler: Handler, source: Source | None = None, **options: Any) -> VirtualInline:
        return VirtualInline(
            handler, penstock_memory if source is None else source, **{"clock": penstock_clock, **options}
        )

    return run
