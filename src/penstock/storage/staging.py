"""What the seam knows of what is handed in before it is published: uploads, their chunks, and batches made of them."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

DIGEST_BYTES = 16


class BatchKey(NamedTuple):
    """By what a batch is known."""

    event_type_id: int
    group: str
    """The producer group."""
    number: int
    """It grows from one batch of the group to the next."""
    query: str
    """Whose batch it is."""


class Upload(NamedTuple):
    """What one task hands in for a batch."""

    id: int
    batch_id: int | None
    """The batch that it is part of; None: nobody has published that."""


class Chunk(NamedTuple):
    """Lines of an upload."""

    upload_id: int
    number: int
    events: int
    """How many valid events they hold."""


class Kept(NamedTuple):
    """What is known of a chunk that is kept."""

    upload_id: int
    number: int
    events: int
    digest: bytes
    rejected: str | None
    """The lines that are no valid events, as JSON; None where all are, or where that was not asked."""


class Batch(NamedTuple):
    """A batch of a producer group, and how far it is published."""

    id: int
    number: int
    query: str
    chunks: int
    done: int
    """How many of its chunks are in the log."""
    events: int
    """How many events that are."""
    rejected: int
    """How many lines were none."""
    offsets: str
    """Where the events lie: by partition, ranges of first and last, as JSON."""
    begun_at: int
    updated_at: int
    partitions: int | None = None
    """Into how many its tasks divide it; None: it is published of uploads."""
    epoch: int | None = None
    """In which its tasks publish as idempotent producers."""

    @property
    def is_direct(self) -> bool:
        """Whether its tasks publish it themselves: to the ledger it is one chunk."""
        return self.epoch is not None

    @property
    def is_done(self) -> bool:
        """Whether all of it is in the log."""
        return self.done == self.chunks


class Staging(Protocol):
    """Uploads that wait, and the ledger: which batches were published."""

    def open(self, key: BatchKey, name: str, at: int) -> bool:
        """Begin an upload for a batch; False: the event type is gone."""

    def count(self, event_type_id: int, limit: int) -> int:
        """Return how many uploads wait, or *limit* where there are more, cheaply."""

    def find(self, event_type: str, name: str) -> Upload | None:
        """Return the upload of that *name*; None: there is none."""

    def touch(self, upload: Upload, at: int) -> bool:
        """Hold an upload until the transaction ends; False: it is part of a batch by now, or nobody's."""

    def add(self, chunk: Kept, body: bytes) -> Kept:
        """Keep a chunk and return it; where there is one of that number, return that one, whatever it has."""

    def hold(self, key: BatchKey, names: Collection[str]) -> Mapping[str, int]:
        """Return those uploads for a batch that wait, by name, and hold them until the transaction ends."""

    def chunks(self, upload_ids: Collection[int]) -> Sequence[Kept]:
        """Return what is known of the chunks of uploads, sorted by upload and number."""

    def begin(self, key: BatchKey, upload_ids: Sequence[int], chunks: int, at: int) -> None:
        """Begin a batch of these uploads, in this order, which have so many *chunks*; whoever does holds the feed."""

    def begin_direct(self, key: BatchKey, partitions: int, epoch: int, at: int) -> None:
        """Begin a batch that its tasks publish themselves; whoever does holds the feed."""

    def batch(self, event_type_id: int, group: str, number: int | None = None) -> Batch | None:
        """Return a batch, the newest of its group unless one is named; None: there is none."""

    def batches(self, event_type_id: int, group: str, limit: int) -> Sequence[Batch]:
        """Return the newest batches of a group, the newest first."""

    def lock(self, batch_ids: Collection[int], partition_ids: Sequence[int]) -> Mapping[int, Batch]:
        """Return batches, locked until the transaction ends; the event types of *partition_ids* are locked before."""

    def next(self, batch_id: int, limit: int) -> Sequence[Chunk]:
        """Return the first *limit* chunks of a batch that are not published."""

    def body(self, chunk: Chunk) -> tuple[bytes, str | None] | None:
        """Return the events of a chunk as they were packed, and which lines were rejected; None: it is published."""

    def advance(self, batch: Batch, published: Sequence[Chunk], at: int) -> None:
        """Let a locked batch be as far as *batch* says, and forget the chunks that are *published*."""

    def drop(self, upload: Upload) -> None:
        """Let an upload be nobody's, unless it is part of a batch."""

    def expire(self, before: int, limit: int) -> int:
        """Let uploads be nobody's that have waited since *before*; return how many."""

    def remove(self, uploads: int, chunks: int) -> int:
        """Remove some of what is nobody's; return how many uploads that was about, 0 when nothing is left to do."""

    def forget(self, event_type_id: int, group: str, *, unfinished: bool) -> int:
        """Forget the batches of a group that are published; return how many.

        With *unfinished* also those that their tasks have not published to the end, and now cannot.
        """

    def forget_old(self, kept: int, limit: int) -> int:
        """Forget published batches, but for the newest *kept* of each group; return how many."""
