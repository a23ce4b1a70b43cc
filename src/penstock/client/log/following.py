"""Follows a feed for ever: page after page, waiting where there is nothing, reconnecting where something failed."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from penstock.core.log.cursor import LAST
from penstock.errors import CursorSetNotFound, NotFound, PenstockError, ServerError
from penstock.wire.http import DELAY_SECONDS_MAX, Backoff, Exchange, Pause, is_passing
from penstock.wire.log.reader.pages import Page
from penstock.wire.log.reader.partitions import Course
from penstock.wire.log.reader.protocol import FeedProtocol, Wish, refuse_until, turns

RETRY_TIMEOUT: Final = 30.0
"""For so long a call is tried again, unless something else is asked for."""
FOLLOW_WAIT_SECONDS: Final = 10.0
POLL_INTERVAL: Final = 1.0
ADVANCE_PAUSE_SECONDS: Final = 0.1
"""The least time between two answers that bring no event but another cursor."""
CLOSED_PAUSE_SECONDS: Final = 10.0
"""How often a feed whose partitions are all read and closed is asked for new ones."""


class Following:
    """One reader that follows a feed. It yields a Page effect whenever something came: events, or another cursor.

    Args:
        feed: The feed.
        cursors: Where the reader has come to; empty: from *start*.
        chosen: The partitions that it reads; None for all.
        start: The cursor to begin at where there are no cursors.
        wish: What is asked for with every page.
        poll_interval: Seconds between two fruitless answers of a server that does not wait.
    """

    def __init__(
        self,
        feed: FeedProtocol,
        cursors: Mapping[int, str],
        *,
        chosen: Collection[int] | None,
        start: str,
        wish: Wish,
        poll_interval: float,
    ) -> None:
        refuse_until(wish)
        self._feed = feed
        self._cursors = dict(cursors)
        self._chosen = chosen
        self._start = start
        self._wish = wish
        self._poll_interval = poll_interval
        self._backoff = Backoff(DELAY_SECONDS_MAX)
        self._turn = 0

    def run(self) -> Exchange[None]:
        """Follow the feed. It ends only by an error that cannot pass, which it raises."""
        course: Course | None = None
        while True:
            try:
                if course is None:
                    course = yield from self._begin()
                yield from self._round(course)
            except PenstockError as error:
                if not is_passing(error):
                    raise
                pause = Pause(self._backoff.delay(error), error)
            else:
                continue
            yield pause

    def _begin(self) -> Exchange[Course]:
        if self._wish.cursor_set is not None and not self._cursors:
            chosen = None if self._chosen is None else sorted(self._chosen)
            try:
                page = yield from self._feed.resume_once(replace(self._wish, wait_seconds=0.0), chosen)
            except (NotFound, ServerError) as error:
                if not _says_nothing_is_kept(error):
                    raise
            else:
                self._cursors = dict(page.cursors)
                yield page
        return (yield from self._feed.course(self._cursors, self._chosen, self._start))

    def _round(self, course: Course) -> Exchange[None]:
        feed, started = self._feed, self._feed.clock()
        groups = feed.groups(course, self._wish)
        brought = advanced = False
        for group, wait_seconds in turns(groups, self._wish.wait_seconds, self._turn):
            before = dict(course.cursors)
            # A place comes before a wait: were the connection to break in the wait, `_last` would mean a later end.
            is_placed = all(before[number] != LAST for number in group)
            page = yield from feed.step(course, group, self._wish, wait_seconds if is_placed else 0.0)
            self._backoff.reset()
            if page is None:
                return
            brought = brought or bool(page.events)
            if page.events or course.cursors != before:
                advanced = True
                yield Page(page.events, dict(course.cursors), before)
        self._turn = 0 if brought else self._turn + 1
        if not groups:
            yield Pause(CLOSED_PAUSE_SECONDS)
            course.meet((yield from feed.discovery(afresh=True)))
        elif not brought:
            least = ADVANCE_PAUSE_SECONDS if advanced else self._poll_interval
            yield Pause(max(0.0, started + least - feed.clock()))


def _says_nothing_is_kept(error: NotFound | ServerError) -> bool:
    """Tell whether *error* is that of a cursor set which nothing is kept for; not all servers say more than 404."""
    if isinstance(error, ServerError):
        return bool(error.fields["status"] == 404)
    return type(error) in (CursorSetNotFound, NotFound)
