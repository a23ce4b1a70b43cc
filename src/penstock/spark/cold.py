"""Reads sealed events on executors, straight from the files of the cold tier; the hub says which file has which.

Typed events come from the files' typed columns, where these are what the query wants; else their JSON is decoded.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import Final

import pyarrow as pa

from penstock.cold.parquet import ColdFile, DamagedFileError, slice_offsets
from penstock.cold.storage import open_storage, read_mark
from penstock.core.log.arrow import SCHEMA
from penstock.errors import BadParameter, ColdFileDamaged, ColdTierUnavailable
from penstock.spark.arrow_types import arrow_type
from penstock.spark.columns import DATA, JSON, QueryColumn
from penstock.spark.connection import ColdFiles, SealedFile
from penstock.spark.heads import Heads
from penstock.spark.planning import Range
from penstock.spark.reading import PagePart, PageSource
from penstock.spark.shape import find_needed_columns
from penstock.typed import RESCUED, TYPED
from penstock.typed.selection import MemberSelection, select_members

OPEN_FILES: Final = 16
"""Maximum number of footers that a task caches."""
LISTED_SECONDS: Final = 3.0
"""The hub is asked again for the files after so long: a reader that has lost its right gets no more of them."""


class ColdPages(PageSource):
    """A hub's pages, of which sealed events come from files."""

    def __init__(
        self, hub: PageSource, find: Callable[[Range], ColdFiles], url: str, columns: Collection[QueryColumn]
    ) -> None:
        """*find* asks the hub for the files of a range; *url* is their cold tier.

        Of events in files only what *columns* need is read; other columns are null.
        """
        self._hub = hub
        self._find = find
        self._storage = open_storage(url)
        self._wanted = {column.name for column in columns}
        needed = find_needed_columns(columns)
        self._columns = [name for name in SCHEMA.names if name in needed or name == "offset"]
        events = next((column.events for column in columns if column.events), None)
        self._events = None if events is None else arrow_type(events)
        self._opened: OrderedDict[str, ColdFile] = OrderedDict()

    def heads(self, event_type: str) -> Heads:
        """See `PageSource.heads`."""
        return self._hub.heads(event_type)

    def page(self, wanted: Range, *, with_headers: bool) -> Iterator[PagePart]:
        """See `PageSource.page`. Pages with all headers come from the hub, which derives some of them.

        Raises:
            ColdTierUnavailable: the storage does not answer, or the executor may not read it.
            ColdFileDamaged: a file does not have what it should.
            BadParameter: the cold tier of the hub does not lie there.
        """
        at = wanted.start
        found, listed_at = None if with_headers else self._find(wanted), time.monotonic()
        if found is not None and found.epoch == wanted.epoch:
            for file in found.files:
                while file.start <= at < min(file.stop, wanted.end):
                    part = self._read(found, file, at, min(file.stop, wanted.end))
                    at = part.end
                    yield part
                    if time.monotonic() - listed_at > LISTED_SECONDS:
                        return  # The rest is asked for anew.
        if at == wanted.start:
            yield from self._hub.page(wanted, with_headers=with_headers)

    def _read(self, found: ColdFiles, file: SealedFile, start: int, stop: int) -> PagePart:
        """Return the events of a range that are in the row group of its first offset."""
        try:
            opened = self._open(found, file)
            group, end = opened.find_group(start)
            batch = self._read_typed(opened, group)
            if batch is None:
                batch = _fill(opened.read_group(group, self._columns))
        except FileNotFoundError:
            self._opened.pop(file.path, None)
            if read_mark(self._storage) != found.tier:
                allowed = "the cold tier of the hub, as the executors reach it"
                raise BadParameter(parameter="coldTier", value=self._storage.url, allowed=allowed) from None
            reason = f"there is no {file.path}: it has been replaced, or is missing"
            raise ColdTierUnavailable(location=self._storage.url, reason=reason) from None
        except DamagedFileError as error:
            raise ColdFileDamaged(location=self._storage.url, path=file.path, reason=str(error)) from error
        except OSError as error:
            reason = f"{file.path}: {' '.join(str(error).split())[:300]}"
            raise ColdTierUnavailable(location=self._storage.url, reason=reason) from error
        return PagePart(slice_offsets(batch, start, min(stop, end)), min(stop, end))

    def _read_typed(self, opened: ColdFile, group: int) -> pa.RecordBatch | None:
        """Return a row group with the typed columns that are wanted; None if they have to be made of its JSON."""
        selection = self._plan(opened.typed_type)
        if selection is None or group >= opened.group_count:
            return None
        names = [name for name in self._columns if name != DATA or JSON in self._wanted]
        needs_rescued = RESCUED in self._wanted or not selection.is_whole
        read = [*names, *(f"{TYPED}.{path}" for path in selection.paths), *([RESCUED] if needs_rescued else [])]
        batch = opened.read_group(group, read)
        if not selection.is_whole and batch.column(RESCUED).null_count < batch.num_rows:
            return None
        found = _fill(batch).append_column(TYPED, selection.apply(batch.column(TYPED)))
        return found.append_column(RESCUED, batch.column(RESCUED)) if needs_rescued else found

    def _plan(self, there: pa.StructType | None) -> MemberSelection | None:
        if there is None or self._events is None:
            return None
        if RESCUED in self._wanted and not there.equals(self._events):
            return None  # What is rescued depends on all members.
        return select_members(there, self._events)

    def _open(self, found: ColdFiles, file: SealedFile) -> ColdFile:
        opened = self._opened.get(file.path)
        if opened is None:
            opened = ColdFile(self._storage.open(file.path))
            if opened.description.tier != found.tier:
                raise DamagedFileError("it belongs to the cold tier of another hub")
            self._opened[file.path] = opened
            while len(self._opened) > OPEN_FILES:
                self._opened.popitem(last=False)
        return opened


def _fill(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of `SCHEMA`, in which the columns that were not read are null."""
    arrays = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, names=SCHEMA.names)
