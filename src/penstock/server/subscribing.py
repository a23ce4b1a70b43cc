"""The routing table of subscriptions: themselves, their streams, their cursors, and how far they have come."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.server import parked, subscription_cursors, subscription_stats, subscription_stream, subscriptions
from penstock.server import subscription_shapes as shapes
from penstock.server.operation import Operation

GET, POST, PUT, PATCH, DELETE = (
    partial(Operation, method, in_path=shapes.IN_PATH) for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
)
_AT: Final = "/subscriptions/{subscription}"
_PARKED: Final = f"{_AT}/parked"

SUBSCRIBING: Final[Sequence[Operation]] = (
    POST(f"{_AT}/cursors", subscription_cursors.commit_cursors, shapes.COMMITTED, shapes.OF_COMMIT, shapes.COMMIT),
    GET(f"{_AT}/events", subscription_stream.stream_by_query, shapes.STREAM, shapes.OF_STREAM),
    POST(f"{_AT}/events", subscription_stream.stream_by_body, shapes.STREAM, body=shapes.STREAM_BODY),
    GET("/subscriptions", subscriptions.list_subscriptions, shapes.SUBSCRIPTIONS, shapes.OF_LIST),
    POST("/subscriptions", subscriptions.create_subscription, shapes.CREATED, body=shapes.NEW_SUBSCRIPTION),
    GET(_AT, subscriptions.show_subscription, shapes.SUBSCRIPTION),
    PUT(_AT, subscriptions.replace_subscription, shapes.DONE, body=shapes.NEW_SUBSCRIPTION),
    DELETE(_AT, subscriptions.delete_subscription, shapes.DONE),
    GET(f"{_AT}/cursors", subscription_cursors.show_cursors, shapes.CURSORS),
    PATCH(f"{_AT}/cursors", subscription_cursors.reset_cursors, shapes.MOVED, body=shapes.RESET),
    GET(f"{_AT}/stats", subscription_stats.show_stats, shapes.STATS, shapes.OF_STATS),
    POST(f"{_AT}/streams/{{stream}}/lease", subscription_cursors.extend_lease, shapes.DONE),
    POST(f"{_AT}/streams/{{stream}}/release", subscription_cursors.release_stream, shapes.DONE, body=shapes.RELEASE),
    GET(_PARKED, parked.list_parked, shapes.PARKED_KEYS),
    GET(f"{_PARKED}/{{parked}}", parked.show_parked, shapes.PARKED_KEY, shapes.OF_PARKED),
    POST(f"{_PARKED}/retry", parked.retry_all_parked, shapes.RETRIED),
    POST(f"{_PARKED}/{{parked}}/retry", parked.retry_parked, shapes.DONE),
    POST(f"{_PARKED}/{{parked}}/skip", parked.skip_parked, shapes.DONE, body=shapes.REASON),
)
