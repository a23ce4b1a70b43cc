"""Where in a feed its ends and times are, and whether a position can be one."""

import time
from datetime import datetime

import typer

from penstock.cli.failures import MISUSED, CommandFailure
from penstock.cli.hub import open_client
from penstock.cli.output import tell
from penstock.client import Client
from penstock.core.log.start import Word
from penstock.errors import BadParameter, EventTypeNotFound, PenstockError
from penstock.processing.sources.feed import FeedPages
from penstock.processing.sources.feed_position import FeedPosition, decode_tranche, encode_tranche
from penstock.wire.http import is_transient


class Places:
    """Asks a hub where in its feeds a start is.

    Args:
        client: Of the hub.
        url: Its address.
        start: Its first event, its end, or the first event that was received at a time or later.
    """

    def __init__(self, client: Client, url: str, start: Word | datetime) -> None:
        self._client = client
        self._url = url
        self._start = start
        self._known: dict[str, dict[int, FeedPosition]] = {}

    def of(self, tranche: str) -> str:
        """Return the position in a tranche.

        Raises:
            CommandFailure: the tranche is no partition of a feed, or the feed has none such.
            EventTypeNotFound: there is no such feed.
        """
        try:
            event_type, partition = decode_tranche(tranche)
        except BadParameter:
            hint = "--tranche and --position move it to a position that you say."
            raise CommandFailure(f"{tranche!r} is no partition of a feed: only of feeds a hub can tell", hint) from None
        if event_type not in self._known:
            self._known[event_type] = self._all(event_type)
        try:
            return self._known[event_type][partition].encode()
        except KeyError:
            raise CommandFailure(
                f"{event_type!r} has no partition {partition}", "Is it the right hub? --url says which."
            ) from None

    def _all(self, event_type: str) -> dict[int, FeedPosition]:
        found = self._client.partitions(event_type)
        if self._start == "latest":
            return {each.partition: FeedPosition(each.epoch, each.head) for each in found}
        if self._start == "earliest":
            return {each.partition: FeedPosition(each.epoch, each.oldest) for each in found}
        pages = FeedPages(self._url, event_type, time.monotonic)
        offsets = self._client.parts()[1].carry_out(pages.find_offsets(self._start))
        return {each.partition: FeedPosition(each.epoch, offsets[each.partition]) for each in found}


def read_position(given: str, before: int | str | None) -> int | str:
    """Return the position that is *given*, where *before* stands: of a feed, the offset alone does.

    Raises:
        BadParameter: it is of another sort than that.

    >>> read_position("17", "2:30"), read_position("1:17", None), read_position("17", 30)
    ('2:17', '1:17', 17)
    """
    if isinstance(before, int):
        if not given.isdecimal():
            raise typer.BadParameter(f"{given!r} is no whole number, such as {before}", param_hint="--position")
        return int(given)
    epoch = None if before is None else _epoch(before)
    return given if epoch is None else _of_feed(given, epoch)


def check_place(url: str, tranche: str, given: str, before: int | str | None) -> int | str:
    """Return the position that is *given*, after asking the hub at *url* whether its feed has such a place.

    Of what is no feed of a hub's it cannot tell, nor where it is away, which is said.

    Raises:
        CommandFailure: the feed is not there, has no such partition or offset, or is in another epoch.
        BadParameter: it is no position of a feed.
    """
    if before is not None and (isinstance(before, int) or _epoch(before) is None):
        return read_position(given, before)
    try:
        event_type, partition = decode_tranche(tranche)
    except BadParameter:
        return read_position(given, before)
    try:
        with open_client(url, retry_timeout=0) as client:
            found = {each.partition: each for each in client.partitions(event_type)}
    except EventTypeNotFound:
        if _epoch(given) is None:  # Other sources have tranches with a slash, too.
            return read_position(given, before)
        raise CommandFailure(
            f"the hub at {url} has no feed {event_type!r}", "Is it the right hub? --hub says which."
        ) from None
    except PenstockError as error:
        if not is_transient(error):
            raise
        tell(f"whether there is such a place is not known: {error.detail}", style="yellow")
        return read_position(given, before)
    if partition not in found:
        hint = f"Name one that it has: {', '.join(encode_tranche(event_type, each) for each in sorted(found)[:10])}."
        raise CommandFailure(f"{event_type!r} has no partition {partition}", hint, status=MISUSED)
    position, there = _of_feed(given, found[partition].epoch), found[partition]
    place = FeedPosition.decode(position)
    check_epoch(event_type, place.epoch, there.epoch)
    if place.offset > there.head:
        hint = f"{there.head} is the offset that its next event will have: name that, or one before it."
        raise CommandFailure(f"{tranche} has no offset {place.offset}: it ends at {there.head}", hint, status=MISUSED)
    return position


def check_epoch(event_type: str, asked: int, found: int) -> None:
    """Raise a Failure unless a feed is in the epoch that a position says."""
    if asked != found:
        detail = f"{event_type!r} is in epoch {found}, not {asked}: it was created again"
        raise CommandFailure(detail, f"Offsets of epoch {asked} mean nothing there: say {found}:OFFSET.")


def _epoch(position: str) -> int | None:
    """Return the epoch of a feed's position; None: it is none."""
    try:
        return FeedPosition.decode(position).epoch
    except BadParameter:
        return None


def _of_feed(given: str, epoch: int) -> str:
    try:
        return FeedPosition.decode(f"{epoch}:{given}" if given.isdecimal() else given).encode()
    except BadParameter as error:
        raise typer.BadParameter(f"{given!r} is not {error.allowed}", param_hint="--position") from error
