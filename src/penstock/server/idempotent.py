"""The routing table of idempotent publishing: events by partition, and who publishes them."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.server import partition_events, producers
from penstock.server import producer_shapes as shapes
from penstock.server.operation import Operation

GET, POST, PUT, DELETE = (
    partial(Operation, method, in_path=shapes.IN_PATH) for method in ("GET", "POST", "PUT", "DELETE")
)
_AT: Final = "/event-types/{event_type}/partitions/{partition}"
_ALL: Final = f"{_AT}/producers"
_ONE: Final = f"{_AT}/producers/{{group}}"

IDEMPOTENT: Final[Sequence[Operation]] = (
    POST(
        f"{_AT}/events",
        partition_events.publish_to_partition,
        shapes.PUBLISHED,
        shapes.OF_PUBLISH,
        shapes.PUBLISHED_BODY,
    ),
    GET(_ALL, producers.list_producers, shapes.PRODUCERS, shapes.OF_LIST),
    POST(_ALL, producers.allocate_producer, shapes.ALLOCATED, body=shapes.CLAIM),
    GET(_ONE, producers.show_producer, shapes.PRODUCER),
    PUT(_ONE, producers.claim_producer, shapes.CLAIMED, body=shapes.CLAIM),
    DELETE(_ONE, producers.forget_producer, shapes.FORGOTTEN),
    GET(f"{_ONE}/sequences/{{first}}", producers.find_sequence, shapes.FOUND, shapes.OF_SEQUENCE),
)
