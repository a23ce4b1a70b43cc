"""The log of a database with a cold tier: reads events from wherever they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.errors import ColdTierUnsuitable
from penstock.storage.admin import COLD, LOCATION, SettingRepository
from penstock.storage.cold.manifest import ColdRepository, ManifestFile
from penstock.storage.log.events import (
    CHUNK_BYTES,
    NONE,
    Block,
    Frame,
    KindFilter,
    LogRepository,
    PartitionHead,
    ReceiveTimes,
    StoredColumns,
    StoredLines,
)
from penstock.storage.log.removal import RemovalRepository

if TYPE_CHECKING:
    from penstock.storage.cold.tier import ColdTier

Chunk = TypeVar("Chunk", StoredLines, StoredColumns)


class _Tx(Protocol):
    """The rest of the transaction."""

    @property
    def cold(self) -> ColdRepository: ...

    @property
    def removal(self) -> RemovalRepository: ...

    @property
    def settings(self) -> SettingRepository: ...


class TieredLog(LogRepository):
    """A log whose oldest events are in files.

    Reads ask the database first, and files only where it lacks events: they cost nothing more where it has them.
    """

    def __init__(self, hot: LogRepository, tx: _Tx, tier: "ColdTier | None") -> None:
        """*hot* is the log of the database itself; *tier* None: reads of events in files are refused."""
        self._hot = hot
        self._tx = tx
        self._tier = tier

    def find_heads(self, partition_ids: Sequence[int], *, lock: bool = False) -> dict[int, PartitionHead]:
        """See `LogRepository.find_heads`."""
        return self._hot.find_heads(partition_ids, lock=lock)

    def append(self, blocks: Iterable[Block]) -> None:
        """See `LogRepository.append`."""
        self._hot.append(blocks)

    def read_lines(
        self, partition_id: int, start: int, stop: int, frame: Frame, kinds: KindFilter | None
    ) -> StoredLines:
        """See `LogRepository.read_lines`.

        Raises:
            NotLoadedError: the events are in a file that has to be loaded first.
            ColdTierUnsuitable: they are in a file, and no cold tier was named.
        """

        def read(start: int) -> StoredLines:
            lines = self._hot.read_lines(partition_id, start, stop, frame, kinds)
            if lines.scanned == lines.stop - start:
                return lines
            found = self._read_file(
                partition_id,
                start,
                stop,
                lambda tier, file, erased: tier.recall_lines(file, start, stop, frame, kinds, erased=erased),
            )
            return found or lines

        lines = read(start)
        while lines.stop < stop and len(lines.body) < CHUNK_BYTES and self._is_sealed(partition_id, lines.stop - 1):
            lines = _join_lines(lines, read(lines.stop), frame)
        return lines

    def read_columns(self, partition_id: int, start: int, stop: int, separator: str = "") -> StoredColumns:
        """See `LogRepository.read_columns`.

        Raises:
            NotLoadedError: the events are in a file that has to be loaded first.
            ColdTierUnsuitable: they are in a file, and no cold tier was named.
        """

        def read(start: int) -> StoredColumns:
            columns = self._hot.read_columns(partition_id, start, stop, separator)
            if columns.rows == columns.stop - start:
                return columns
            found = self._read_file(
                partition_id,
                start,
                stop,
                lambda tier, file, erased: tier.recall_columns(file, start, stop, separator, erased=erased),
            )
            return found or columns

        columns = read(start)
        while (
            columns.stop < stop and len(columns.data) < CHUNK_BYTES and self._is_sealed(partition_id, columns.stop - 1)
        ):
            columns = _join_columns(columns, read(columns.stop), separator)
        return columns

    def find_first_offsets(self, ranges: Mapping[int, tuple[int, int]], at: int) -> dict[int, int]:
        """See `LogRepository.find_first_offsets`.

        Raises:
            NotLoadedError: the events are in a file that has to be loaded first.
            ColdTierUnsuitable: they are in a file, and no cold tier was named.
        """
        heads = self._hot.find_heads(sorted(ranges))
        found, left = {}, {}
        for partition_id, (start, stop) in ranges.items():
            cold_stop = heads[partition_id].cold_stop if partition_id in heads else 0
            offset = self._find_first_received(partition_id, start, min(stop, cold_stop), at)
            if offset is not None:
                found[partition_id] = offset
            else:
                left[partition_id] = max(start, min(stop, cold_stop)), stop
        return found | (self._hot.find_first_offsets(left, at) if left else {})

    def find_receive_times(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """See `LogRepository.find_receive_times`; of an event in a file it is the time of the file's first event."""
        heads = self._hot.find_heads(sorted(offsets))
        found, left = {}, {}
        for partition_id, offset in offsets.items():
            cold_stop = heads[partition_id].cold_stop if partition_id in heads else 0
            at = self._find_receive_time(partition_id, offset) if offset < cold_stop else None
            if at is not None:
                found[partition_id] = at
            else:
                left[partition_id] = max(offset, cold_stop)
        return found | (self._hot.find_receive_times(left) if left else {})

    def _find_first_received(self, partition_id: int, start: int, stop: int, at: int) -> int | None:
        if start >= stop:
            return None
        for file in self._tx.cold.list([partition_id], "sealed"):
            if file.stop > start and start <= file.start and file.content.received_from >= at:
                return file.start if file.start < stop else None
            if file.stop > start and file.content.received_to >= at:
                offset = self._open_tier().recall_first_received(file, max(start, file.start), at)
                if offset is not None:
                    return offset if offset < stop else None
        return None

    def _find_receive_time(self, partition_id: int, offset: int) -> int | None:
        """Return when the first event was received of the file that has an offset, or of the next one with events."""
        files = self._tx.cold.list([partition_id], "sealed")
        return next((each.content.received_from for each in files if each.stop > offset and each.content.events), None)

    def _is_sealed(self, partition_id: int, offset: int) -> bool:
        head = self._hot.find_heads([partition_id]).get(partition_id)
        return head is not None and offset < head.cold_stop

    def _read_file(
        self,
        partition_id: int,
        offset: int,
        stop: int,
        read: "Callable[[ColdTier, ManifestFile, Sequence[int]], Chunk]",
    ) -> Chunk | None:
        """Return what *read* finds in the file that has an offset; None if no file has it.

        It is also given the offsets up to *stop* whose events were erased, which the file may still have.
        """
        head = self._hot.find_heads([partition_id]).get(partition_id)
        if head is None or not head.floor <= offset < head.cold_stop:
            return None
        file = self._tx.cold.find(partition_id, offset)
        if file is None:
            return None
        tier = self._open_tier()
        tier.learn(file)
        holes = self._tx.removal.list_holes(partition_id, offset, min(stop, file.stop))
        erased = [each for first, past in holes for each in range(max(first, offset), min(past, stop, file.stop))]
        return read(tier, file, erased)

    def _open_tier(self) -> "ColdTier":
        if self._tier is None:
            raise ColdTierUnsuitable.of(
                "cold-tier-missing", location=find_location(self._tx.settings) or "an unknown URL"
            )
        return self._tier


def find_location(settings: SettingRepository) -> str | None:
    """Return the URL of the database's cold tier, as hubs have recorded it; None if it has none."""
    return next((each.value for each in settings.list() if (each.kind, each.name) == (COLD, LOCATION)), None)


def _join_lines(first: StoredLines, second: StoredLines, frame: Frame) -> StoredLines:
    scanned, kept = first.scanned + second.scanned, first.kept + second.kept
    if not (first.kept and second.kept):
        return StoredLines(second.stop, scanned, kept, first.body or second.body)
    end, begin = len(first.body) - len(frame.suffix.encode()), len(frame.prefix.encode())
    body = b"".join([memoryview(first.body)[:end], frame.separator.encode(), memoryview(second.body)[begin:]])
    return StoredLines(second.stop, scanned, kept, body)


def _join_columns(first: StoredColumns, second: StoredColumns, separator: str) -> StoredColumns:
    if not first.rows or not second.rows:
        return (first if first.rows else second)._replace(stop=second.stop)

    def join(name: str) -> bytes | None:
        columns = getattr(first, name), getattr(second, name)
        if columns == (None, None):
            return None
        filled = (b"\n".join([NONE] * each.rows) for each in (first, second))
        return b"\n".join(nones if column is None else column for column, nones in zip(columns, filled, strict=True))

    ends = b"\n".join(b"%d" % (first.rows + int(each)) for each in second.received.ends.split(b"\n"))
    received = ReceiveTimes(
        b"\n".join([first.received.ends, ends]), b"\n".join([first.received.times, second.received.times])
    )
    return StoredColumns(
        second.stop,
        first.rows + second.rows,
        b"".join([first.data, separator.encode(), second.data]),
        first.sizes + second.sizes,
        join("keys"),
        join("kinds"),
        join("headers"),
        received,
    )
