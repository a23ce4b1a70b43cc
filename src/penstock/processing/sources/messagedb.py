"""The categories of a MessageDB: each is a tranche, whose streams keep their names and positions."""

import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from penstock.client.log.starting import start_now
from penstock.core.log.start import Start, check_start
from penstock.errors import BadParameter
from penstock.processing.engine.tranche import Batch, Position
from penstock.processing.parameters import check_kind, check_name
from penstock.processing.sources.categories import (
    CATEGORY_ALLOWED,
    FIRST,
    PAGE_ROWS,
    SCHEMA,
    CategoryDatabase,
    CategoryRange,
    Row,
    check_database_url,
    choose_rows,
    is_category,
)
from penstock.processing.sources.source import Closable, Exclusive, ReadRequest
from penstock.processing.stream_event import StreamEvent

PART_EVENTS: Final = 250
"""The number of events of a part of a page, after which there is a position: a restart repeats fewer events."""
LOOK_INTERVAL: Final = 0.1
"""Seconds between two polls for events, during a wait."""
_END: Final = 2**63 - 1
"""Larger than all global positions."""
_URL: Final = "the URL of a PostgreSQL database, such as postgresql://message_store@localhost:5432/message_store"
_NAMES: Final = "the names of categories, one after the other, not in a list: 'account', 'payment'"
_EXPRESSIONS: Final = (
    "stream_name",
    "position",
    "type",
    "data::text",
    "metadata::text",
    '(extract(epoch FROM "time") * 1000000)::bigint',
)
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.encode


class MessagedbSource(Closable):
    """Categories of a MessageDB. A category is a tranche, and its streams keep their names.

    An event's index is its position in its stream, so indices are dense. `key` is the part of the stream's name
    behind the first dash, `headers` its metadata, with values that are no texts as JSON. No event is skipped, even if
    transactions end in another order than they began in: see `penstock.processing.sources.categories`.

    Several processors share the categories by leases. MessageDB's own consumer groups are not used: they would give a
    position to each member, and none of them could be added.

    Args:
        url: The database's URL.
        categories: The categories to read, at least one.
        start: Where a processor without a position begins: at the `earliest` event, behind the `latest`, or with the
            first one written at a time or later, a datetime with a time zone, or since a duration ago, a timedelta.
            With `latest`, a category without a position is read whole if the processor has positions in others.
        schema: The schema in which MessageDB is installed.

    Raises:
        BadParameter: an argument is invalid; or (reading methods) there is no MessageDB, or the store ends before a
            position.
        RequirementMissing: psycopg is not installed; the extra `postgres` brings it.
        DatabaseUnavailable: (reading methods) the database is not available.
    """

    is_dense = True
    is_by_stream = True
    is_replayable = True

    def __init__(self, url: str, *categories: str, start: Start = "earliest", schema: str = SCHEMA) -> None:
        check_kind("url", url, str, _URL)
        try:
            url = check_database_url(url)
        except ValueError:
            raise BadParameter(parameter="url", value="(not shown)", allowed=_URL) from None
        if not categories:
            raise BadParameter(parameter="categories", value=(), allowed="the name of one category at least")
        for each in categories:
            check_kind("categories", each, str, _NAMES)
            if not is_category(each):
                raise BadParameter(parameter="categories", value=each, allowed=CATEGORY_ALLOWED)
        check_name("schema", schema)
        self._start = start_now(check_start(start))
        self._categories = tuple(dict.fromkeys(categories))
        self._rows = dict.fromkeys(self._categories, PAGE_ROWS)
        """By category: the maximum number of events of the next page."""
        self._checked: set[str] = set()
        """Categories for which the store was checked to reach the position."""
        self._reading, self._asking = (
            Exclusive(
                CategoryDatabase(url, schema, name="penstock-processing", settings={"connect_timeout": seconds}),
                CategoryDatabase.close,
            )
            for seconds in (10, 3)
        )
        self._closed = threading.Event()
        self._ends: Mapping[str, int] | None = None
        """The ends of the categories at the first check."""

    def tranches(self) -> Collection[str]:
        """Return the categories."""
        return self._categories

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return the first position of a new processor in a category."""
        if self._start == "earliest" or (self._start == "latest" and kept):
            return FIRST
        with self._reading.use() as database:
            if self._ends is None:
                self._ends = database.list_heads(self._categories)
            if isinstance(self._start, datetime):
                since = database.find_since(tranche, self._start.astimezone(UTC).replace(tzinfo=None))
                return self._ends[tranche] if since is None else since
            return self._ends[tranche]

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the new events of each wanted category."""
        while True:
            found = [part for tranche, want in wants.items() for part in self._read_parts(tranche, want)]
            if found or timeout <= 0 or self._closed.wait(min(timeout, LOOK_INTERVAL)):
                return found
            timeout -= LOOK_INTERVAL

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Read a category again from an earlier global position."""
        rows = self._read_page(tranche, want)
        end = rows[-1][0] + 1 if rows else want.position
        return Batch(tranche, end, [_make_event(tranche, row) for row in rows], is_tail=not rows)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each category has behind its position now. An unavailable database is not waited for.

        Raises:
            Unavailable: the database is unavailable, or the source is closed.
        """
        with self._asking.use() as database:
            ranges = [CategoryRange(each, int(positions.get(each, FIRST)), _END) for each in self._categories]
            return {each.category: database.count(each) for each in ranges}

    def close(self) -> None:
        """End, and wake the reading thread; a database without an answer is not waited for."""
        self._closed.set()
        self._reading.close()
        self._asking.close()

    def _read_parts(self, tranche: str, want: ReadRequest) -> list[Batch]:
        """Return the next page of a category, in parts; empty if there is none.

        Raises:
            BadParameter: the store ends before the position.
        """
        rows = self._read_page(tranche, want)
        if not rows:
            return []
        events = [_make_event(tranche, row) for row in rows]
        parts: list[Batch] = []
        for at in range(0, len(rows), PART_EVENTS):
            items, end = events[at : at + PART_EVENTS], rows[min(at + PART_EVENTS, len(rows)) - 1][0] + 1
            is_last = at + PART_EVENTS >= len(rows)
            parts.append(Batch(tranche, end, items, bytes=_measure_bytes(items), is_part=not is_last))
        return parts

    def _read_page(self, tranche: str, want: ReadRequest) -> list[Row]:
        at = int(want.position)
        if self._closed.is_set():
            return []
        with self._reading.use() as database:
            if tranche not in self._checked:
                self._check_position(database, tranche, at)
            most = min(want.events_max, self._rows[tranche])
            rows = database.read_page(CategoryRange(tranche, at, _END), _EXPRESSIONS, most)
        if rows:
            size = sum(len(row[4] or "") + len(row[5] or "") for row in rows)
            self._rows[tranche] = choose_rows(len(rows), size) if len(rows) == most else PAGE_ROWS
        return rows

    def _check_position(self, database: CategoryDatabase, tranche: str, at: int) -> None:
        end = database.find_end()
        if at > end:
            allowed = f"up to {end}, where the store ends; `penstock groups reset` moves a processor there"
            raise BadParameter(parameter="position", value=f"{at} of {tranche}", allowed=allowed)
        self._checked.add(tranche)


def _make_event(category: str, row: Row) -> StreamEvent:
    """Return the event of a row, which has the global position and the values of `_EXPRESSIONS`."""
    _, stream, position, kind, data, metadata, received = row
    raw, key = "null" if data is None else data, stream.partition("-")[2] or None
    return StreamEvent(stream, position, kind, raw.encode(), key, _make_headers(metadata), category, received)


def _make_headers(metadata: str | None) -> str | None:
    """Return the metadata of an event as headers, values that are no texts as JSON; None if it is no object.

    >>> _make_headers('{"trace": "a1", "n": 1.0, "none": null}'), _make_headers("[1]")
    ('{"trace":"a1","n":"1.0"}', None)
    """
    if metadata is None:
        return None
    found: Any = _decode(metadata)
    if not isinstance(found, dict):
        return None
    texts = {
        name: value if isinstance(value, str) else _encode(value).decode()
        for name, value in found.items()
        if value is not None
    }
    return str(_encode(texts).decode())


def _measure_bytes(events: Sequence[StreamEvent]) -> int:
    return sum(len(event.raw) for event in events)
