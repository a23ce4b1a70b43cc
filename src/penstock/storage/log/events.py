"""Port of the log itself: append events to partitions, and read ranges of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from penstock.core.events.event import Row

CHUNK_BYTES: Final = 2 << 20
"""About the most bytes that one read brings into memory; only a single larger event exceeds it."""

NONE: Final = b"\x01"
"""Stands for NULL in a joined column; no key, kind or header can contain it."""

DELETION: Final = "\x02"
"""Kind of a row that is never shown: it asks to delete the earlier events of its key."""

ROW_COLUMNS: Final = ("key", "kind", "headers", "data")
"""The columns that hold the fields of a `Row`."""

SIZE_BYTES: Final = 4
"""Bytes of each integer in `StoredColumns.sizes`."""


class PartitionHead(NamedTuple):
    """Range of offsets that a partition holds, and the revision of its event type."""

    revision: int
    """Revision of the event type; a publisher whose revision differs has an outdated definition."""
    floor: int
    """First offset that retention has left."""
    next_offset: int
    received_at: int
    """When the last event was received, also one that is gone; 0 if there was none. Never goes back."""
    holes_stop: int = 0
    """Offset from which on no event was removed one by one."""
    removals: int = 0
    """Number that grows with each transaction that removes events one by one."""
    cold_stop: int = 0
    """Offset below which events are in files of the cold tier; the last event never is."""


class Block(NamedTuple):
    """Consecutive events that a transaction appends to one partition."""

    partition_id: int
    start: int
    """Offset of the first event."""
    received_at: int
    rows: list[Row]


class ReceiveTimes(NamedTuple):
    """Times at which the events of a range were received, one a run of neighbours that share it; joined by LF."""

    ends: bytes
    """For each run, the number of events from the start of the range to the run's end."""
    times: bytes


class StoredColumns(NamedTuple):
    """Range of events by column; keys, kinds and headers are joined by LF, and None where all are NULL."""

    stop: int
    """Offset just after the range: smaller than requested where the rest did not fit into a chunk."""
    rows: int
    """Number of events; smaller than the range, maybe 0, where some of it has been removed."""
    data: bytes
    """The events one after the other, with the separator of the read between them."""
    sizes: bytes
    """Size of each event's data in bytes, as 32-bit integers in the machine's byte order."""
    keys: bytes | None
    kinds: bytes | None
    headers: bytes | None
    received: ReceiveTimes


class KindFilter(msgspec.Struct, frozen=True):
    """Filter of events by kind, compared as `lower_kind` has it."""

    kinds: frozenset[str]
    skip: bool
    """Keep all kinds but these."""
    default: str
    """Kind of an event that states none: the name of its event type."""


class Frame(NamedTuple):
    """Text before, between and after the joined events of a chunk."""

    prefix: str
    separator: str
    suffix: str


class StoredLines(NamedTuple):
    """Range of events joined into one value."""

    stop: int
    """Offset just after the range: smaller than requested where the rest did not fit into a chunk."""
    scanned: int
    kept: int
    body: bytes
    """Empty when no event was kept."""


class LogRepository(Protocol):
    """The log: events of partitions, which are appended and read but never changed."""

    def find_heads(self, partition_ids: Sequence[int], *, lock: bool = False) -> dict[int, PartitionHead]:
        """Return the head of each partition that still belongs to an event type.

        With *lock*, the heads stay locked until the transaction ends. *partition_ids* are sorted then, so that
        transactions lock in one order.
        """

    def append(self, blocks: Iterable[Block]) -> None:
        """Append events, whose offsets continue densely from the locked heads.

        They may be written when the transaction commits: the transaction itself does not read them.
        """

    def read_lines(
        self, partition_id: int, start: int, stop: int, frame: Frame, kinds: KindFilter | None
    ) -> StoredLines:
        """Return the data of a range as one value; only events that *kinds* keeps.

        The range is shortened to about `CHUNK_BYTES`, but never to nothing.
        """

    def read_columns(self, partition_id: int, start: int, stop: int, separator: str = "") -> StoredColumns:
        """Return a range by column, shortened like that of `read_lines`; *separator* stands between the events."""

    def find_first_offsets(self, ranges: Mapping[int, tuple[int, int]], at: int) -> dict[int, int]:
        """Return, by partition, the offset of the first event in its range (start, stop) received at *at* or later.

        The offset is the range's stop if no event is that recent. A binary search looks at few events.
        """

    def find_receive_times(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Return, by partition, when the first event at its offset or after it was received.

        Partitions without such an event are left out.
        """
