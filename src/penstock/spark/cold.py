"""Reads sealed events on executors, straight from the files of the cold tier; the hub says which file has which."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import Final

import pyarrow as pa

from penstock.cold.parquet import ColdFile, DamagedFileError, slice_offsets
from penstock.cold.storage import open_storage
from penstock.core.log.arrow import SCHEMA
from penstock.errors import ColdFileDamaged, ColdTierUnavailable
from penstock.spark.connection import ColdFiles, SealedFile
from penstock.spark.heads import Heads
from penstock.spark.ranges import Range
from penstock.spark.reading import PagePart, PageSource

OPEN_FILES: Final = 16
"""So many footers a task keeps in memory."""


class ColdPages(PageSource):
    """A hub's pages, of which sealed events come from files."""

    def __init__(self, hub: PageSource, find: Callable[[Range], ColdFiles], url: str, columns: Collection[str]) -> None:
        """*find* asks the hub for the files of a range; *url* is their cold tier.

        Of events in files only *columns* are read; the others are null.
        """
        self._hub = hub
        self._find = find
        self._storage = open_storage(url)
        self._columns = [name for name in SCHEMA.names if name in columns or name == "offset"]
        self._opened: OrderedDict[str, ColdFile] = OrderedDict()

    def heads(self, event_type: str) -> Heads:
        """See `PageSource.heads`."""
        return self._hub.heads(event_type)

    def page(self, wanted: Range, *, with_headers: bool) -> Iterator[PagePart]:
        """See `PageSource.page`. Pages with all headers come from the hub, which derives some of them.

        Raises:
            ColdTierUnavailable: the storage does not answer, or the executor may not read it.
            ColdFileDamaged: a file does not have what it should.
        """
        at = wanted.start
        found = None if with_headers else self._find(wanted)
        if found is not None and found.epoch == wanted.epoch:
            for file in found.files:
                while file.start <= at < min(file.stop, wanted.end):
                    part = self._read(found, file, at, min(file.stop, wanted.end))
                    at = part.end
                    yield part
        if at == wanted.start:
            yield from self._hub.page(wanted, with_headers=with_headers)

    def _read(self, found: ColdFiles, file: SealedFile, start: int, stop: int) -> PagePart:
        """Return the events of a range that are in the row group of its first offset."""
        try:
            opened = self._open(found, file)
            group, end = opened.find_group(start)
            batch = slice_offsets(opened.read_group(group, self._columns), start, min(stop, end))
        except FileNotFoundError:
            self._opened.pop(file.path, None)
            reason = f"there is no {file.path}: it has been replaced, or coldTier is not that of the hub"
            raise ColdTierUnavailable(location=self._storage.url, reason=reason) from None
        except DamagedFileError as error:
            raise ColdFileDamaged(location=self._storage.url, path=file.path, reason=str(error)) from error
        except OSError as error:
            reason = f"{file.path}: {' '.join(str(error).split())[:300]}"
            raise ColdTierUnavailable(location=self._storage.url, reason=reason) from error
        return PagePart(_fill(batch), min(stop, end))

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
