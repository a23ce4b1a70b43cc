"""Reports positions in a consumer's own database to a hub, which shows them among all others."""

import atexit
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.client.client import Client
from penstock.client.credentials import make_auth
from penstock.core.group_names import PATH_NAME_ALLOWED, is_path_name
from penstock.core.groups.groups import REPORTED
from penstock.errors import BadParameter
from penstock.processing.engine.tranche import Position
from penstock.processing.sources.feed_position import FeedPosition, decode_tranche
from penstock.wire.groups import NewPosition
from penstock.wire.http import check_address

INTERVAL: Final = 5.0
"""Minimum seconds between two reports."""
REPEAT_INTERVAL: Final = 6 * 3_600.0
"""Seconds after which unchanged positions are reported again: a group without reports expires."""
LAST_SECONDS: Final = 3.0
"""Maximum seconds that the end of the program waits for the last report."""
_log: Final = logging.getLogger("penstock.processing")


class PositionReporter:
    """Reports positions to a hub, in a thread of its own that neither delays nor fails commits.

    It reads the committed positions at most every `INTERVAL`, and reports the last ones before the program ends.

    Args:
        url: The hub's address.
        group: The name under which the hub shows them.
        kept_at: A readable name of the place where they are stored.
        positions: Returns the committed positions.
        auth: The credential to send: see `Client`.

    Raises:
        BadParameter: the address or the name is invalid.
    """

    def __init__(
        self, url: str, group: str, kept_at: str, positions: Callable[[], Mapping[str, Position]], *, auth: Any = None
    ) -> None:
        if not is_path_name(group):
            raise BadParameter(parameter="processor", value=group, allowed=f"{PATH_NAME_ALLOWED}, to be reported")
        self._url = check_address(url)
        self._group = group
        self._kept_at = kept_at
        self._positions = positions
        self._auth = make_auth(auth)
        self._news = threading.Event()
        self._ending = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_failing = False
        self._looks = 0
        """Number of times to read the positions again without further news."""
        self._reported: list[NewPosition] = []

    def report_soon(self) -> None:
        """Report positions soon: some have moved, or will have once a transaction is committed."""
        self._looks = 2
        self._news.set()
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-reports", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def close(self) -> None:
        """Report the last positions, and end; give up after `LAST_SECONDS`."""
        self._ending.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)
        atexit.unregister(self.close)

    def _run(self) -> None:
        while not self._ending.is_set():
            is_news = self._news.wait(REPEAT_INTERVAL)
            self._news.clear()
            is_done = self._report(repeats=not is_news)
            self._looks -= 1
            if self._looks > 0 or not is_done:
                self._news.set()  # Once more, after a while.
            self._ending.wait(INTERVAL)
        self._report()

    def _report(self, *, repeats: bool = False) -> bool:
        try:
            items = _select_feed_positions(self._positions())
            if items and (repeats or items != self._reported):
                with Client(self._url, auth=self._auth, retry_timeout=0) as client:
                    client.commit_positions(self._group, items, kind=REPORTED, kept_at=self._kept_at)
                self._reported = items
        except Exception as error:  # noqa: BLE001 - A failed report does not stop the processor.
            if not self._is_failing:
                _log.warning("%s: positions are not reported to %s: %s", self._group, self._url, error)
            self._is_failing = True
        else:
            self._is_failing = False
        return not self._is_failing


def _select_feed_positions(positions: Mapping[str, Position]) -> list[NewPosition]:
    """Return the positions that lie in feeds; a hub accepts no others."""
    items = []
    for tranche, position in positions.items():
        try:
            (event_type, partition), place = decode_tranche(tranche), FeedPosition.decode(str(position))
        except BadParameter:
            continue
        items.append(NewPosition(event_type, partition, place.offset, epoch=place.epoch))
    return items
