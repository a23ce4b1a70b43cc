"""An event hub that lives in your own database, and a Spark data pipeline that drinks from it.

What is for everybody can be imported from here; it is loaded when it is first asked for, so that a service which only
publishes through `penstock.outbox` loads neither server nor client.
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import export_lazily

if TYPE_CHECKING:
    from penstock.client import AsyncClient, AsyncFeed, AsyncIdempotentProducer, Client, Feed, IdempotentProducer
    from penstock.core.events.event import NewEvent
    from penstock.errors import PenstockError
    from penstock.hub.hub import Hub
    from penstock.schema.models import DataChange
    from penstock.server import HubApp
    from penstock.storage import open_store
else:
    __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "client": ["AsyncClient", "AsyncFeed", "AsyncIdempotentProducer", "Client", "Feed", "IdempotentProducer"],
            "core.events.event": ["NewEvent"],
            "errors": ["PenstockError"],
            "hub.hub": ["Hub"],
            "schema.models": ["DataChange"],
            "server": ["HubApp"],
            "storage": ["open_store"],
        },
    )

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
