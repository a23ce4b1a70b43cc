"""What one would write without Penstock: a Starlette app that makes a page of the same rows with `json.dumps`."""

import json
import sqlite3
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.storage.sqlite.log.events import place_of

_ROWS = "SELECT data FROM penstock_event WHERE place >= ? ORDER BY place LIMIT ?"


def app(path: str, partition_id: int, *, loads: bool) -> Starlette:
    """Serve pages; with *loads* the events are objects, as in the feed, else the stored text goes in as a string."""

    def page(request: Request) -> Response:
        start, count = int(request.query_params["start"]), int(request.query_params["count"])
        connection = sqlite3.connect(path)
        rows = connection.execute(_ROWS, (place_of(partition_id, start), count)).fetchall()
        connection.close()
        if loads:
            lines = [json.dumps({"partition": 0, "data": json.loads(data)}) for (data,) in rows]
        else:
            lines = [json.dumps({"partition": 0, "data": data}) for (data,) in rows]
        return Response("\n".join(lines) + "\n", media_type="application/x-ndjson")

    return Starlette(routes=[Route("/", page)])


if __name__ == "__main__":
    port, path, partition_id, loads = sys.argv[1:]
    served = app(path, int(partition_id), loads=loads == "loads")
    uvicorn.run(served, port=int(port), log_level="warning", access_log=False, timeout_keep_alive=600)
