"""The requests of a query that publishes: uploads, and batches made of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from penstock.errors import BatchNotFound, MalformedAnswer
from penstock.spark.authorization import ANONYMOUS, Credential
from penstock.spark.http import send_request
from penstock.spark.patience import patiently
from penstock.wire.batches import (
    AcceptedChunk,
    BatchStatus,
    OpenedUpload,
    OpenUpload,
    PublishBatch,
    UploadPart,
)
from penstock.wire.log.zeroeventhub import NDJSON

Result = TypeVar("Result", bound=msgspec.Struct)


class QueryBatch(NamedTuple):
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
    retry_timeout: float
    """Seconds for which requests are retried while the hub does not answer."""
    credential: Credential = ANONYMOUS

    def event_type(self, name: str) -> dict[str, Any]:
        """Return an event type as the hub tells of it.

        Raises:
            EventTypeNotFound: there is none of that name.
            PenstockError: what else the hub answers, or that it has not answered for too long.
        """
        told: dict[str, Any] = self._patiently(partial(self._ask, self._of(name)))
        return told

    def open(self, batch: QueryBatch) -> str | None:
        """Begin an upload and return its name; None where the batch was begun before.

        Raises:
            PenstockError: the hub does not take the batch, or has not answered for too long.
        """
        wanted = OpenUpload(batch.group, batch.number, batch.query)
        told = self._patiently(partial(self._ask, self._uploads(batch.event_type), msgspec.to_builtins(wanted)))
        return self._read(told, OpenedUpload).upload if "upload" in told else None

    def put(self, event_type: str, upload: str, number: int, body: bytes, *, rejects: bool) -> AcceptedChunk:
        """Hand in a chunk.

        Raises:
            InvalidEvent, EventTooLarge: a line is no valid event, and none is to be set apart.
            PenstockError: what else the hub answers, or that it has not answered for too long.
        """
        address = f"{self._uploads(event_type)}/{upload}/chunks/{number}{'?reject_invalid=true' if rejects else ''}"
        put = partial(self._ask, address, body, method="PUT", media_type=NDJSON)
        return self._read(self._patiently(put), AcceptedChunk)

    def publish(self, batch: QueryBatch, parts: Sequence[UploadPart]) -> BatchStatus:
        """Publish a batch, of *parts* unless it was begun before, and return it.

        Raises:
            PenstockError: the hub does not take the batch, or has not answered for too long.
        """
        return self._put(self._batch(batch), PublishBatch(batch.query, list(parts)))

    def drop(self, event_type: str, upload: str) -> None:
        """Forget an upload; one that is gone already is. Ask once, also with a token that is refused.

        Raises:
            PenstockError: what the hub answers, or that it does not.
        """
        address = f"{self._uploads(event_type)}/{upload}"
        try:
            send_request(address, method="DELETE", headers=self.credential.headers())
        except BatchNotFound:
            return

    def _of(self, event_type: str) -> str:
        return f"{self.url}/event-types/{quote(event_type, safe='')}"

    def _uploads(self, event_type: str) -> str:
        return f"{self._of(event_type)}/uploads"

    def _batch(self, batch: QueryBatch) -> str:
        return f"{self._of(batch.event_type)}/producers/{quote(batch.group, safe='')}/batches/{batch.number}"

    def _put(self, address: str, wanted: msgspec.Struct) -> BatchStatus:
        body = msgspec.to_builtins(wanted)
        return self._read(self._patiently(partial(self._ask, address, body, method="PUT")), BatchStatus)

    def _read(self, told: Any, kind: type[Result]) -> Result:
        try:
            return msgspec.convert(told, kind)
        except msgspec.ValidationError as error:
            reason = f"not what was asked for ({error}): {str(told)[:200]}"
            raise MalformedAnswer(url=self.url, reason=reason) from error

    def _ask(self, address: str, body: Any = None, *, headers: Mapping[str, str] | None = None, **how: Any) -> Any:
        return self.credential.send(
            lambda sent: send_request(address, body, headers={**(headers or {}), **sent}, **how)
        )

    def _patiently(self, attempt: Callable[[], Any]) -> Any:
        return patiently(self.retry_timeout, attempt)
