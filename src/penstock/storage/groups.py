"""What the seam knows of consumer groups as a whole: who there is, how far each has come, and what was done to it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from penstock.core.groups import GroupProgress


class Listed(NamedTuple):
    """A consumer group in a list."""

    name: str
    kind: str
    sources: tuple[str, ...]
    """Those that it has positions in, and those that it subscribes to; sorted."""
    definition: Mapping[str, Any] | None = None
    """Of the subscription that it is; None: it is none."""


class Which(NamedTuple):
    """Which groups are looked for: those that are all of this."""

    source: str | None = None
    """They have positions in it, or subscribe to it."""
    kind: str | None = None
    after: str = ""
    """Their names come after this one."""


class Place(NamedTuple):
    """A position: how far a group has come in one slice of one tranche of a source."""

    source: str
    slice: str
    tranche: int
    epoch: int
    offset: int


class Intervention(NamedTuple):
    """What somebody has done to a consumer group in one partition, over its head."""

    source: str
    slice: str
    tranche: int
    kind: str
    epoch: int
    came_from: int | None
    """The offset that was wanted next before; None: there was none of this epoch."""
    went_to: int
    reason: str | None
    at: int
    id: int = 0
    """In the order in which they were recorded."""


class Groups(Protocol):
    """Consumer groups. Whoever writes positions holds the group's row before, so that nobody waits in a circle."""

    def list(self, which: Which, limit: int) -> Sequence[Listed]:
        """Return up to *limit* groups, sorted by name."""

    def find(self, name: str) -> Listed | None:
        """Return the group of that name, or None."""

    def standings(self, names: Sequence[str]) -> Sequence[GroupProgress]:
        """Return where groups stand, sorted by group, source, slice and tranche; each costs two looks into an index."""

    def lock(self, name: str, *, kind: str | None = None, at: int = 0) -> str | None:
        """Lock a group until the transaction ends: nobody else stores positions of it. Return its kind.

        One that there is not is made, where *kind* says what it is to be; else it is None.
        """

    def put(self, name: str, places: Iterable[Place], at: int) -> None:
        """Record positions of a locked group, whatever stood there."""

    def intervene(self, name: str, interventions: Iterable[Intervention]) -> None:
        """Record what was done to a group."""

    def history(self, name: str, *, before: int | None, limit: int) -> Sequence[Intervention]:
        """Return up to *limit* interventions, the newest first: those that were recorded before one of that id."""

    def delete(self, name: str) -> None:
        """Forget a locked group with its positions, and what was done to it."""
