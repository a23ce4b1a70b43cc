"""A subscription, and the stream of it that is open, if one is."""

import logging
import time
from collections.abc import Callable
from functools import cached_property
from typing import Final

from penstock.errors import Invalid, PenstockError, Unavailable
from penstock.spark.heads import report_loss
from penstock.spark.nakadi.cursors import Cursors, NakadiPartition, advanced, behind, beyond, is_before
from penstock.spark.nakadi.open_stream import OpenStream, StreamEnd
from penstock.spark.nakadi.options import SubscriptionOptions
from penstock.spark.nakadi.server import NakadiServer
from penstock.spark.patience import DELAY_SECONDS_MAX, patiently
from penstock.wire.http import RetryBackoff, is_transient
from penstock.wire.subscriptions import BatchCursor, BatchLine

_log: Final = logging.getLogger("penstock.spark")


class SubscriptionReader:
    """The subscription that *options* name, as its one reader has it.

    Raises:
        NotFound: it is not there, or no longer.
        PenstockError: the server refuses what it is asked, or has not answered for too long.
    """

    def __init__(self, options: SubscriptionOptions, sleep: Callable[[float], object] = time.sleep) -> None:
        self._options = options
        self._server = NakadiServer(options)
        self._stream: OpenStream | None = None
        self._held: BatchLine | None = None
        self._proofs: dict[tuple[NakadiPartition, str], str] = {}
        """With which the cursors that the stream was sent are committed."""
        self._committed: dict[NakadiPartition, str] = {}
        """As far as it is known here."""
        self._backoff = RetryBackoff(DELAY_SECONDS_MAX)
        self._ended: StreamEnd | None = None
        """Why the last stream has ended, if that has brought nothing since."""
        self._sleep = sleep

    @cached_property
    def id(self) -> str:
        """Its id; it is created where it is missing and the options say what it is."""
        asked = self._options.subscription
        return asked if isinstance(asked, str) else self._server.subscribe(asked)

    @cached_property
    def _event_types(self) -> tuple[str, ...]:
        return tuple(self._server.event_types(self.id))

    @property
    def is_open(self) -> bool:
        """Whether there is a stream that may bring something."""
        return self._stream is not None and self._ended is None

    def ends(self) -> Cursors:
        """Return the newest event of each partition in which there is one."""
        return self._server.ends(self._event_types)

    def committed(self) -> Cursors:
        """Return what is committed."""
        return self._server.cursors(self.id)

    def open(self, wanted: Cursors) -> Cursors:
        """Open a stream of what follows *wanted*; return where it begins.

        Raises:
            EventsLost: more is committed, or what follows is not all there, and that is to fail.
            Forbidden: the subscription had to be moved, and may not be.
        """
        if self._ended is not None:
            self._sleep(self._backoff.delay(self._ended.error or Unavailable(self._ended.reason)))
        self.close()
        before = self.committed()
        self._settle(before, wanted)
        self._stream = patiently(self._options.retry_timeout, lambda: OpenStream(lambda: self._server.stream(self.id)))
        self._committed = advanced(before or self.committed(), wanted)
        return self._committed

    def take(self, timeout: float) -> BatchLine | None:
        """Return the next line; None: none has come for *timeout* seconds, or the stream has ended."""
        if self._held is not None:
            line, self._held = self._held, None
            return line
        assert self._stream is not None, "a stream was opened"
        match self._stream.take(timeout):
            case None:
                return None
            case StreamEnd() as ended:
                _log.warning("a stream of subscription %s has ended: %s", self.id, ended.reason)
                self._ended = ended
                return None
            case line:
                self._backoff.reset()
                return line

    def put_back(self, line: BatchLine) -> None:
        """Have *line* come again, before any other of this stream."""
        self._held = line

    def note(self, cursor: BatchCursor) -> None:
        """Take note of a cursor that may be committed later."""
        place = NakadiPartition(cursor.event_type, cursor.partition)
        if is_before(self._committed.get(place), cursor.offset):
            self._proofs[place, cursor.offset] = cursor.cursor_token

    def commit(self, cursors: Cursors) -> None:
        """Commit those of *cursors* that the stream was sent. Where they are not taken any more, it is closed."""
        sent = [
            BatchCursor(place.partition, offset, place.event_type, self._proofs[place, offset])
            for place, offset in cursors.items()
            if (place, offset) in self._proofs
        ]
        if self._stream is None or not sent:
            return
        try:
            self._server.commit(self.id, self._stream.id, sent)
        except Invalid as error:
            _log.warning("a stream of subscription %s cannot commit: %s", self.id, error.detail)
            self.close()
        except PenstockError as error:
            if not is_transient(error):
                raise
            _log.warning("subscription %s: %s; it is committed later", self.id, error.detail)
        else:
            self._committed |= {NakadiPartition(each.event_type, each.partition): each.offset for each in sent}
            self._proofs = {
                (place, offset): each
                for (place, offset), each in self._proofs.items()
                if is_before(self._committed.get(place), offset)
            }

    def close(self) -> None:
        """Close the stream, if there is one; what it was sent and was not taken is forgotten."""
        if self._stream is not None:
            self._stream.close()
        self._stream = self._held = self._ended = None
        self._proofs = {}

    def _settle(self, committed: Cursors, wanted: Cursors) -> None:
        """Have Nakadi stand where the query does."""
        for place, offset in beyond(committed, wanted).items():
            reason = (
                f"the query has come to {wanted[place]}, while {offset} is committed: by another consumer, by who has "
                "moved the subscription, or by Nakadi itself, of events that it does not deliver"
            )
            self._report(place, reason)
        if late := behind(committed, wanted):
            self._move(late)

    def _move(self, late: Cursors) -> None:
        try:
            self._server.move(self.id, late)
        except Invalid:
            for place, offset in late.items():
                self._move_one(place, offset)

    def _move_one(self, place: NakadiPartition, offset: str) -> None:
        try:
            self._server.move(self.id, {place: offset})
        except Invalid as error:
            self._report(place, f"the query has come to {offset}, which Nakadi does not go on from: {error.detail}")

    def _report(self, place: NakadiPartition, reason: str) -> None:
        self.report_loss(place, None, reason)

    def report_loss(self, place: NakadiPartition, lost: int | None, reason: str) -> None:
        """Tell of events that are gone, as failOnDataLoss has it.

        Raises:
            EventsLost: that is to fail.
        """
        partition = int(place.partition) if place.partition.isdigit() else None
        report_loss(
            self._options.fail_on_data_loss, event_type=place.event_type, partition=partition, lost=lost, reason=reason
        )
