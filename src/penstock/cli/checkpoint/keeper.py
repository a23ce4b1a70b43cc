"""What keeps the positions of processors, as `penstock checkpoint` sees it, and the options that say where that is."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Protocol

import typer

from penstock.cli.database_url import checked_database
from penstock.cli.options import checked_url

if TYPE_CHECKING:
    from penstock.core.group_parking import Request
    from penstock.processing.checkpoints.database import ParkedAt

TABLE: Final = "penstock_checkpoints"


def _checked(url: str | None) -> str | None:
    return None if url is None else checked_database(url)


# Not from PENSTOCK_DATABASE: that is the hub's database, and this one is the processor's own.
KeptInOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="The database in which processors keep their positions; without it, the hub keeps them.",
        callback=_checked,
    ),
]
TableOption = Annotated[
    str, typer.Option(metavar="NAME", help="With --database: the first of the tables there, if it is called otherwise.")
]
HubOption = Annotated[
    str,
    typer.Option(
        "--url",
        "--hub",
        envvar="PENSTOCK_URL",
        help="The hub's address. With --database: whose feeds are read.",
        callback=checked_url,
    ),
]
ProcessorArgument = Annotated[
    str, typer.Argument(metavar="PROCESSOR", help="The processor's name, as `list` shows it.")
]


class Behind(NamedTuple):
    """How far a position is behind."""

    gap: int | None
    """How many events there are from it on; None: nobody can tell."""
    lag_seconds: float | None
    """The age of the oldest of them; None: likewise."""


UNKNOWN: Final = Behind(None, None)


class ProcessorEntry(NamedTuple):
    """A processor whose positions are kept."""

    processor: str
    reads: list[str]
    """Event types, or whatever else its tranches are of."""
    tranches: int | None
    """None: that is not told here, `show` does."""
    gap: int | None
    """How many events are not committed; None: that cannot be told."""
    lag_seconds: float | None
    """The age of the oldest of them; None: likewise."""
    parked: int | None
    """How many of its streams are parked; None: that is not kept there."""
    updated_at: str | None
    """When a position was moved last; None: that is not told here."""


class TrancheProgress(NamedTuple):
    """How far a processor is in a tranche."""

    tranche: str
    position: int | str
    gap: int | None
    lag_seconds: float | None
    parked: int | None
    updated_at: str


class ProcessorIntervention(NamedTuple):
    """Something that was done to a processor over its head."""

    at: str
    tranche: str
    came_from: int | str | None
    went_to: int | str | None
    reason: str | None


class Keeper(Protocol):
    """What keeps positions.

    Raises:
        NotFound: (whatever is asked of a processor) nothing is kept of it.
    """

    def processors(self) -> Sequence[ProcessorEntry]:
        """Return those whose positions are kept, by name."""
        ...

    def standings(self, processor: str) -> Sequence[TrancheProgress]:
        """Return how far a processor is."""
        ...

    def further(self, processor: str, positions: Mapping[str, int | str]) -> Mapping[str, int]:
        """Return how many streams of each tranche have done more than a position says, and begin again with a move."""
        ...

    def move(self, processor: str, positions: Mapping[str, int | str], reason: str | None) -> None:
        """Move positions, all or none; it is remembered."""
        ...

    def history(self, processor: str, limit: int) -> Sequence[ProcessorIntervention]:
        """Return what was done to a processor over its head, the newest first."""
        ...

    def parked(self, processor: str) -> "Sequence[ParkedAt]":
        """Return the streams that it has parked, the oldest first."""
        ...

    def ask(self, processor: str, stream: str, request: "Request", reason: str | None = None) -> None:
        """Want a parked stream tried again, or passed over."""
        ...

    def forget(self, processor: str) -> None:
        """Forget all that is kept of a processor."""
        ...
