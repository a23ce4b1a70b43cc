"""What a reader asks for, and how each protocol spells it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypedDict

from penstock.errors import BadParameter
from penstock.wire.zeroeventhub import CURSORSET_CHARS_MAX

ALL_HEADERS: Final = "_all"

Query = list[tuple[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for with every page, beside the cursors."""

    page_size_hint: int | None = None
    """Events; the server may send more or fewer. None: the server's default. 0: cursors only."""
    wait: float = 0.0
    """Seconds that a server which knows how waits for an event where there is none."""
    headers: str | Sequence[str] = ()
    """Names of headers that are to come with the events; ALL_HEADERS for all."""
    event_types: Sequence[str] = ()
    """Kinds of events wanted; empty: all. A server may disregard it."""
    skip_event_types: Sequence[str] = ()
    """Kinds of events not wanted."""
    cursor_set: str | None = None
    """The name under which the server keeps the cursors that it is given."""
    until: Mapping[int, str] | None = None
    """Cursors to stop at, by partition. Only a Penstock hub knows them, and it does not wait then."""

    def __post_init__(self) -> None:
        if self.page_size_hint is not None and self.page_size_hint < 0:
            raise BadParameter(parameter="page_size_hint", value=self.page_size_hint, allowed="0 or more")
        if not 0 <= self.wait < float("inf"):
            raise BadParameter(parameter="wait", value=self.wait, allowed="0 or more seconds")
        if self.event_types and self.skip_event_types:
            raise BadParameter(
                parameter="skip_event_types", value=self.skip_event_types, allowed="no event_types beside"
            )
        if self.cursor_set is not None and not _is_name(self.cursor_set):
            allowed = f"1 to {CURSORSET_CHARS_MAX} printable ASCII characters"
            raise BadParameter(parameter="cursor_set", value=self.cursor_set, allowed=allowed)


class Options(TypedDict, total=False):
    """The fields of `Wish`, as a feed's methods take them by keyword."""

    page_size_hint: int | None
    wait: float
    headers: str | Sequence[str]
    event_types: Sequence[str]
    skip_event_types: Sequence[str]
    cursor_set: str | None
    until: Mapping[int, str] | None


def wish(options: Options) -> Wish:
    """Return what *options* ask for.

    Raises:
        TypeError: one of them is none, and probably mistyped.

    >>> wish({"page_size_hint": 10}).page_size_hint
    10
    """
    for stranger in options.keys() - Options.__annotations__.keys():
        close = get_close_matches(stranger, Options.__annotations__, 1)
        asks = f"; did you mean {close[0]!r}?" if close else f", which has {', '.join(Options.__annotations__)}"
        raise TypeError(f"{stranger!r} is no option of a read{asks}")
    return Wish(**options)


def version_one_query(wish: Wish, n: int, cursors: Mapping[int, str], wait: float) -> Query:
    """Return ZeroEventHub's parameters of one read.

    >>> version_one_query(Wish(page_size_hint=10), 4, {2: "_first"}, 0)
    [('n', 4), ('cursor2', '_first'), ('pagesizehint', 10)]
    """
    query: Query = [("n", n), *((f"cursor{number}", cursor) for number, cursor in cursors.items())]
    if wish.cursor_set is not None:
        query.append(("cursorset", wish.cursor_set))
    query += [(f"until{number}", wish.until[number]) for number in cursors if wish.until and number in wish.until]
    return query + _shared(wish, wait)


def resume_query(wish: Wish, n: int, partitions: Sequence[int]) -> Query:
    """Return ZeroEventHub's parameters for reading on from the cursors that the server keeps."""
    numbers = ",".join(map(str, partitions))
    return [("n", n), ("cursorset", wish.cursor_set), ("resume", numbers), *_shared(wish, wish.wait)]


def store_query(cursor_set: str, n: int, cursors: Mapping[int, str]) -> Query:
    """Return ZeroEventHub's parameters for storing cursors without reading."""
    query = version_one_query(Wish(cursor_set=cursor_set, page_size_hint=0), n, cursors, 0)
    return [*query, ("store_cursor", 1)]


def version_two_query(wish: Wish, token: str, partition: int, cursor: str, wait: float) -> Query:
    """Return FeedAPI's parameters of one read.

    >>> version_two_query(Wish(event_types=["a", "b"]), "1-4", 0, "_first", 20)
    [('token', '1-4'), ('partition', 0), ('cursor', '_first'), ('wait', '20'), ('event-types', 'a;b')]
    """
    query: Query = [("token", token), ("partition", partition), ("cursor", cursor)]
    if wish.until and partition in wish.until:
        query.append(("until", wish.until[partition]))
    return query + _shared(wish, wait)


def _shared(wish: Wish, wait: float) -> Query:
    query: Query = []
    if wish.page_size_hint is not None:
        query.append(("pagesizehint", wish.page_size_hint))
    if wait > 0:
        query.append(("wait", f"{wait:g}"))
    if wish.headers:
        query.append(("headers", wish.headers if isinstance(wish.headers, str) else ",".join(wish.headers)))
    if wish.event_types:
        query.append(("event-types", ";".join(wish.event_types)))
    if wish.skip_event_types:
        query.append(("skip-event-types", ";".join(wish.skip_event_types)))
    return query


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= CURSORSET_CHARS_MAX and text.isascii() and text.isprintable()
