"""Protocol of following a feed: read page after page, wait while there are no events, reconnect after failures."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from penstock.client.log.starting import CURSORS, find_start_cursors, start_now
from penstock.core.log.cursor import FIRST, LAST
from penstock.core.log.start import Start, check_start
from penstock.errors import NotFound, PenstockError, ServerError
from penstock.wire.arguments import check_cursors, check_partitions, check_seconds
from penstock.wire.http import DELAY_SECONDS_MAX, Exchange, Pause, RetryBackoff, is_transient
from penstock.wire.log.reader.pages import Page
from penstock.wire.log.reader.partitions import ReadState
from penstock.wire.log.reader.protocol import FeedProtocol, ReadParameters, check_no_until, plan_round

RETRY_TIMEOUT: Final = 30.0
"""Default number of seconds for which a call is retried."""
FOLLOW_WAIT_SECONDS: Final = 10.0
POLL_INTERVAL: Final = 1.0
ADVANCE_PAUSE_SECONDS: Final = 0.1
"""Minimum seconds between two responses that contain no events but other cursors."""
CLOSED_PAUSE_SECONDS: Final = 10.0
"""Seconds between two discoveries of a feed whose partitions are all closed and read to their end."""


class FollowProtocol:
    """Protocol of one reader that follows a feed. It yields a Page for each response with events or other cursors.

    Args:
        feed: The feed.
        cursors: Cursors to continue from; empty starts at *start*.
        chosen: The partitions to read; None reads all.
        start: Where to begin if there are no cursors; a duration counts from now.
        parameters: The parameters of each read.
        poll_interval: Seconds between two empty responses of a server that does not support `wait`.
    """

    def __init__(
        self,
        feed: FeedProtocol,
        cursors: Mapping[int, str],
        *,
        chosen: Collection[int] | None,
        start: Start,
        parameters: ReadParameters,
        poll_interval: float,
    ) -> None:
        check_no_until(parameters)
        if cursors:
            check_cursors(cursors)
        check_partitions(chosen)
        check_seconds("poll_interval", poll_interval, is_finite=True)
        self._feed = feed
        self._cursors = dict(cursors)
        self._chosen = chosen
        self._start = start_now(check_start(start))
        self._wish = parameters
        self._poll_interval = poll_interval
        self._backoff = RetryBackoff(DELAY_SECONDS_MAX)
        self._turn = 0

    def run(self) -> Exchange[None]:
        """Follow the feed. It ends only with a permanent error, which it raises."""
        state: ReadState | None = None
        while True:
            try:
                if state is None:
                    state = yield from self._begin()
                yield from self._round(state)
            except PenstockError as error:
                if not is_transient(error):
                    raise
                pause = Pause(self._backoff.delay(error), error)
            else:
                continue
            yield pause

    def _begin(self) -> Exchange[ReadState]:
        if self._wish.cursor_set is not None and not self._cursors:
            chosen = None if self._chosen is None else sorted(self._chosen)
            try:
                page = yield from self._feed.resume_once(replace(self._wish, wait_seconds=0.0), chosen)
            except (NotFound, ServerError) as error:
                if not _is_missing_cursor_set(error):
                    raise
            else:
                self._cursors = dict(page.cursors)
                yield page
        if isinstance(self._start, datetime):
            if not self._cursors:
                self._cursors = yield from find_start_cursors(self._feed, self._start, None)
            return (yield from self._feed.read_state(self._cursors, self._chosen, FIRST))
        return (yield from self._feed.read_state(self._cursors, self._chosen, CURSORS[self._start]))

    def _round(self, state: ReadState) -> Exchange[None]:
        feed, started = self._feed, self._feed.clock()
        groups = feed.groups(state, self._wish)
        brought = advanced = False
        for group, wait_seconds in plan_round(groups, self._wish.wait_seconds, self._turn):
            before = dict(state.cursors)
            # Resolve `_last` before waiting: if the connection broke during a wait, it would mean a later end.
            is_placed = all(before[number] != LAST for number in group)
            page = yield from feed.step(state, group, self._wish, wait_seconds if is_placed else 0.0)
            self._backoff.reset()
            if page is None:
                return
            brought = brought or bool(page.events)
            if page.events or state.cursors != before:
                advanced = True
                yield Page(page.events, dict(state.cursors), before)
        self._turn = 0 if brought else self._turn + 1
        if not groups:
            yield Pause(CLOSED_PAUSE_SECONDS)
            state.update_partitions((yield from feed.discovery(afresh=True)))
        elif not brought:
            least = ADVANCE_PAUSE_SECONDS if advanced else self._poll_interval
            yield Pause(max(0.0, started + least - feed.clock()))


def _is_missing_cursor_set(error: NotFound | ServerError) -> bool:
    """Return whether *error* says that no cursors are stored under the name; some servers only answer 404."""
    if isinstance(error, ServerError):
        return bool(error.fields["status"] == 404)
    return error.code in ("cursor-set-not-found", "not-found")
