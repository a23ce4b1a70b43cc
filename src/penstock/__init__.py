"""An event hub that lives in your own database, and a Spark data pipeline that drinks from it.

What is for everybody can be imported from here; it is loaded when it is first asked for, so that a service which only
publishes through `penstock.outbox` loads neither server nor client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client import (
        AsyncClient,
        AsyncFeed,
        AsyncIdempotentProducer,
        Client,
        Feed,
        IdempotentProducer,
    )
    from penstock.core.data_change import DataChange
    from penstock.core.event import NewEvent
    from penstock.errors import PenstockError
    from penstock.hub.hub import Hub
    from penstock.server import HubApp
    from penstock.storage import open_store

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncFeed",
    "AsyncIdempotentProducer",
    "Client",
    "DataChange",
    "Feed",
    "Hub",
    "HubApp",
    "IdempotentProducer",
    "NewEvent",
    "PenstockError",
    "open_store",
]

_HOMES = {
    "AsyncClient": "client",
    "AsyncFeed": "client",
    "AsyncIdempotentProducer": "client",
    "Client": "client",
    "DataChange": "core.data_change",
    "Feed": "client",
    "Hub": "hub.hub",
    "HubApp": "server",
    "IdempotentProducer": "client",
    "NewEvent": "core.event",
    "PenstockError": "errors",
    "open_store": "storage",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(import_module(f"penstock.{_HOMES[name]}"), name)
