"""The routing table of reading for those who keep their own cursors in Nakadi's shape: its low-level interface."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.server import cursors, event_stream
from penstock.server import low_level_shapes as shapes
from penstock.server.operation import Operation

GET, POST = (partial(Operation, method) for method in ("GET", "POST"))
_AT: Final = "/event-types/{event_type}"

LOW_LEVEL: Final[Sequence[Operation]] = (
    GET(f"{_AT}/events", event_stream.stream_events, shapes.STREAM, shapes.OF_STREAM),
    GET(f"{_AT}/partitions", cursors.list_partitions, shapes.PARTITIONS, shapes.OF_PARTITIONS),
    GET(
        f"{_AT}/partitions/{{partition}}",
        cursors.show_partition,
        shapes.PARTITION,
        shapes.OF_PARTITION,
        in_path=shapes.IN_PATH,
    ),
    GET(f"{_AT}/cursors", cursors.find_cursors, shapes.CURSORS, shapes.OF_TIME),
    POST(f"{_AT}/cursor-distances", cursors.measure_distances, shapes.DISTANCES, body=shapes.PAIRS),
    POST(f"{_AT}/shifted-cursors", cursors.shift_cursors, shapes.CURSORS, body=shapes.SHIFTS),
    POST(f"{_AT}/cursors-lag", cursors.measure_lag, shapes.PARTITIONS, body=shapes.PLACES),
)
