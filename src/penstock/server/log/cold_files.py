"""The route of the cold tier's files: which files have the sealed events of a partition, for those who read them."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.times import format_time
from penstock.errors import PartitionNotFound
from penstock.server.http.responses import json_response
from penstock.server.state import event_type_of, state_of
from penstock.storage.cold.manifest import ManifestFile
from penstock.wire.query import Query

FILES_MAX: Final = 100
PARTITION_MAX: Final = 32_767


async def list_cold_files(request: Request) -> Response:
    """GET /event-types/{event_type}/cold-files: list the files that have a partition's events from an offset on."""
    state, name = state_of(request), event_type_of(request)
    query = Query(request.scope["query_string"])
    partition = query.read_integer("partition", None, low=0, high=PARTITION_MAX)
    offset = query.read_integer("offset", 0, low=0, high=10**18 - 1)

    def find() -> dict[str, Any]:
        feed = state.hub.registry.load(name)
        if partition >= feed.partition_count:
            raise PartitionNotFound(event_type=name, partition=partition, partition_count=feed.partition_count)
        found = state.hub.cold.find_sealed(feed.partition_ids[partition], offset, FILES_MAX)
        return {
            "location": found.location,
            "tier": found.tier,
            "epoch": feed.epoch,
            "items": [describe(each) for each in found.files],
        }

    return json_response(await state.run(find))


def describe(file: ManifestFile) -> dict[str, Any]:
    """Return what readers need to know of a file."""
    content = file.content
    return {
        "path": file.path,
        "start": file.start,
        "stop": file.stop,
        "events": content.events,
        "data_bytes": content.data_bytes,
        "file_bytes": file.file_bytes,
        "received_from": format_time(content.received_from),
        "received_to": format_time(content.received_to),
        "digest": content.digest,
    }
