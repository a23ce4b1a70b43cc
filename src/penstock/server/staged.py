"""The routing table of publishing in batches: of uploads that were handed in before, or directly by its tasks; once."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.server import staging
from penstock.server import staging_shapes as shapes
from penstock.server.operation import Operation

GET, POST, PUT, DELETE = (
    partial(Operation, method, in_path=shapes.IN_PATH) for method in ("GET", "POST", "PUT", "DELETE")
)
_UPLOADS: Final = "/event-types/{event_type}/uploads"
_BATCHES: Final = "/event-types/{event_type}/producers/{group}/batches"

STAGED: Final[Sequence[Operation]] = (
    POST(_UPLOADS, staging.open_upload, shapes.OPENED, body=shapes.OPEN),
    PUT(f"{_UPLOADS}/{{upload}}/chunks/{{chunk}}", staging.put_chunk, shapes.CHUNK, shapes.OF_CHUNK, shapes.LINES),
    DELETE(f"{_UPLOADS}/{{upload}}", staging.drop_upload, shapes.DROPPED),
    PUT(f"{_BATCHES}/{{batch}}", staging.publish_uploads, shapes.BATCH, body=shapes.PUBLISH),
    PUT(f"{_BATCHES}/{{batch}}/manifest", staging.begin_batch, shapes.BATCH, body=shapes.BEGIN),
    PUT(f"{_BATCHES}/{{batch}}/counts", staging.complete_batch, shapes.BATCH, body=shapes.COMPLETE),
    GET(f"{_BATCHES}/{{batch}}", staging.show_batch, shapes.BATCH),
    GET(_BATCHES, staging.list_batches, shapes.BATCHES, shapes.OF_LIST),
    DELETE(_BATCHES, staging.forget_batches, shapes.FORGOTTEN, shapes.OF_FORGET),
)
"""Protocols S and D of the digest of idempotent publishing, 5.3 and 5.4."""
