"""What a query asks of the hub when it publishes: uploads, and batches made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from penstock.errors import MalformedAnswer, UploadNotFound
from penstock.spark.http import asked
from penstock.spark.patience import patiently
from penstock.wire.staging import Batch, Chunk, OpenUpload, Part, PublishBatch, Upload
from penstock.wire.zeroeventhub import NDJSON

Result = TypeVar("Result", bound=msgspec.Struct)


class BatchName(NamedTuple):
    """A batch of a query's."""

    event_type: str
    group: str
    """The producer group."""
    number: int
    query: str
    """By which the query is told from others."""


@dataclass(frozen=True)
class HubBatches:
    """A hub at a URL. Holds plain values and no connection: it can be sent to executors."""

    url: str
    retry_seconds: float
    """So long it is asked again, while it does not answer."""

    def open(self, batch: BatchName) -> str | None:
        """Begin an upload and return its name; None where the batch was begun before.

        Raises:
            PenstockError: the hub does not take the batch, or has not answered for too long.
        """
        wanted = OpenUpload(batch.group, batch.number, batch.query)
        told = self._patiently(partial(asked, self._uploads(batch.event_type), msgspec.to_builtins(wanted)))
        return self._read(told, Upload).upload if "upload" in told else None

    def put(self, event_type: str, upload: str, number: int, body: bytes, *, rejects: bool) -> Chunk:
        """Hand in a chunk.

        Raises:
            InvalidEvent, EventTooLarge, PartitionRefused: a line is no valid event, and none is to be set apart.
            PenstockError: what else the hub answers, or that it has not answered for too long.
        """
        address = f"{self._uploads(event_type)}/{upload}/chunks/{number}{'?reject_invalid=true' if rejects else ''}"
        put = partial(asked, address, body, method="PUT", media_type=NDJSON)
        return self._read(self._patiently(put), Chunk)

    def publish(self, batch: BatchName, parts: Sequence[Part]) -> Batch:
        """Publish a batch, of *parts* unless it was begun before, and return it.

        Raises:
            PenstockError: the hub does not take the batch, or has not answered for too long.
        """
        group = quote(batch.group, safe="")
        address = f"{self.url}/event-types/{quote(batch.event_type, safe='')}/producers/{group}/batches/{batch.number}"
        wanted = msgspec.to_builtins(PublishBatch(batch.query, list(parts)))
        return self._read(self._patiently(partial(asked, address, wanted, method="PUT")), Batch)

    def drop(self, event_type: str, upload: str) -> None:
        """Forget an upload; one that is gone already is.

        Raises:
            PenstockError: the hub has not answered for too long.
        """
        try:
            asked(f"{self._uploads(event_type)}/{upload}", method="DELETE")
        except UploadNotFound:
            return

    def _uploads(self, event_type: str) -> str:
        return f"{self.url}/event-types/{quote(event_type, safe='')}/uploads"

    def _read(self, told: Any, kind: type[Result]) -> Result:
        try:
            return msgspec.convert(told, kind)
        except msgspec.ValidationError as error:
            reason = f"not what was asked for ({error}): {str(told)[:200]}"
            raise MalformedAnswer(url=self.url, reason=reason) from error

    def _patiently(self, attempt: Callable[[], Any]) -> Any:
        return patiently(self.retry_seconds, attempt)
