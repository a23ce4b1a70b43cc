"""A feed from afar, as a query asks it: patiently, and by the standard library alone."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from penstock.core.log.cursor import FIRST
from penstock.errors import (
    BadCursor,
    BadParameter,
    BadPartitionCount,
    CursorExpired,
    PenstockError,
    ServerError,
    StaleToken,
    Unavailable,
)
from penstock.spark.authorization import authorization
from penstock.spark.heads import report_loss
from penstock.spark.options import bad_option
from penstock.spark.patience import Patience, patiently
from penstock.spark.zeroeventhub.exchanges import carry_out
from penstock.spark.zeroeventhub.options import RemoteOptions, no_partition_count
from penstock.wire.http import Exchange
from penstock.wire.log.reader.pages import Page
from penstock.wire.log.reader.partitions import Discovery, ReadState
from penstock.wire.log.reader.protocol import STALE_MAX, FeedProtocol

GONE: Final = 410
Result = TypeVar("Result")


class RemoteFeed:
    """The feed that *options* name. Whatever it is asked, it is asked again while its server does not answer.

    Raises:
        BadParameter: its server does not tell how many partitions there are, and neither do the options; or there is
            no token in the file that they name.
        PenstockError: what the server answers, or that it has not answered for too long.
    """

    def __init__(self, options: RemoteOptions) -> None:
        self._options = options
        self._protocol = FeedProtocol(
            options.url,
            partition_count=options.partition_count,
            version=options.version,
            merged=False,
            retry_timeout=0.0,  # Ours counts.
            clock=time.monotonic,
        )
        self._churn = Patience(options.retry_timeout)
        self._stale_count = 0
        """How often in a row the partitions had changed when they were read."""

    def partitions(self) -> Discovery:
        """Return what is known of the feed."""
        return self._told(self._protocol.discovery)

    def course(self, cursors: Mapping[int, str], chosen: Collection[int] | None = None) -> ReadState:
        """Return the course of a reader that has come to *cursors*; see `ReadState`.

        It reads the partitions *chosen*, and those that follow from them; all, where none are. With no *cursors* it is
        a new one, and begins where the options say.
        """
        asked = self._options.starting_cursors
        begins: Mapping[int, str] = cursors
        if not cursors and isinstance(asked, dict):
            self._check(asked)
            begins = asked
        return self._told(lambda: self._protocol.read_state(begins, chosen, asked if isinstance(asked, str) else FIRST))

    def meet_again(self, course: ReadState) -> None:
        """Have *course* meet the partitions as they are now: they have changed."""
        self._stale_count += 1
        if self._stale_count > STALE_MAX:
            self._churn.endure(Unavailable(reason=f"the partitions of {self._options.url} change all the time"))
        course.update_partitions(self._told(lambda: self._protocol.discovery(afresh=True)))

    def page(self, course: ReadState, partition: int, *, size: int, wait_seconds: float = 0.0) -> Page | None:
        """Read a page of about *size* events of *partition*; None: the partitions have changed.

        Where there is none, the server may wait for an event for so many seconds. *course* does not take note of it.
        May be called by several threads at once.

        Raises:
            EventsLost: the server refuses the cursor, and that is to fail.
        """
        cursor = course.cursors[partition]
        try:
            page = self._page(course.discovery, partition, cursor, size, wait_seconds)
        except PenstockError as error:
            if cursor == FIRST or not _refuses_cursor(error):
                raise
            self._report_loss(partition, cursor, error)
            page = self._page(course.discovery, partition, FIRST, size, 0.0)
        if page is not None:
            self._stale_count = 0
            self._churn.reset()
        return page

    def _page(self, discovery: Discovery, partition: int, cursor: str, size: int, wait_seconds: float) -> Page | None:
        wish = self._options.wish(size)
        try:
            return self._told(lambda: self._protocol.page(discovery, {partition: cursor}, wish, wait_seconds))
        except (StaleToken, BadPartitionCount):
            if discovery.version == 1:
                raise
            return None

    def _told(self, ask: Callable[[], Exchange[Result]]) -> Result:
        try:
            return patiently(self._options.retry_timeout, lambda: carry_out(ask(), headers=self._authorization()))
        except BadParameter as error:
            if error.parameter == "partition_count":
                raise no_partition_count(self._options.url) from None
            raise

    def _authorization(self) -> dict[str, str]:
        return authorization(self._options.authorization_file)

    def _check(self, asked: Mapping[int, str]) -> None:
        """Refuse cursors that are of none of the feed's partitions, and that none of them could take over."""
        discovery = self.partitions()
        known = {*discovery.ids, *(number for each in discovery.partitions for number in each.cursor_from)}
        if strays := sorted(set(asked) - known):
            allowed = f"cursors of the feed's partitions, {', '.join(map(str, discovery.ids))}"
            raise bad_option("startingCursors", f"that of partition {strays[0]}", allowed)

    def _report_loss(self, partition: int, cursor: str, error: PenstockError) -> None:
        report_loss(
            self._options.fail_on_data_loss,
            event_type=self._options.url,
            partition=partition,
            lost=None,
            reason=f"the server refuses the cursor {cursor!r}: {error.detail}",
        )


def _refuses_cursor(error: PenstockError) -> bool:
    """Tell whether *error* means that nothing can be read from a cursor any more."""
    if isinstance(error, ServerError):
        return bool(error.status == GONE)
    return isinstance(error, CursorExpired | BadCursor)
