"""A hub that is served as any other, but that every request has a transaction of its own."""

import sys

from penstock.cli import logs
from penstock.cli.listening import bind, serve
from penstock.cli.serve import keep_large_blocks
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.storage import open_store


def hub(database: str) -> Hub:
    """Open the hub."""
    store = open_store(database)
    store.migrate()
    return Hub(store, group_events_max=1)


if __name__ == "__main__":
    port, database = sys.argv[1:]
    logs.configure("info", as_json=True)  # As the hub does whose log goes into a file.
    keep_large_blocks()
    serve(HubApp(lambda: hub(database)), bind("127.0.0.1", int(port)), lambda: None)
