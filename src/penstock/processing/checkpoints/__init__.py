"""Where processors keep their positions and their parked streams.

HubCheckpoints           in the hub, in a consumer group
SubscriptionCheckpoints  in the hub, in the cursors of a subscription
DatabaseCheckpoints      in a database of yours, in your own transactions if you like
MemoryCheckpoints        in memory only: a new process starts from the beginning
DatabaseLeases           leases of tranches for several processors of one name, in a database of yours
HubLeases                the same, in the hub
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import export_lazily

if TYPE_CHECKING:
    from penstock.processing.checkpoints.checkpoint import Advance, Checkpoints, MemoryCheckpoints, PositionMove
    from penstock.processing.checkpoints.database import DatabaseCheckpoints
    from penstock.processing.checkpoints.hub import HubCheckpoints, SubscriptionCheckpoints
    from penstock.processing.checkpoints.leases import DatabaseLeases, HubLeases
    from penstock.processing.engine.parking import Parked
else:
    __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "processing.checkpoints.checkpoint": ["Advance", "Checkpoints", "MemoryCheckpoints", "PositionMove"],
            "processing.checkpoints.database": ["DatabaseCheckpoints"],
            "processing.checkpoints.hub": ["HubCheckpoints", "SubscriptionCheckpoints"],
            "processing.checkpoints.leases": ["DatabaseLeases", "HubLeases"],
            "processing.engine.parking": ["Parked"],
        },
    )

__all__ = [
    "Advance",
    "Checkpoints",
    "DatabaseCheckpoints",
    "DatabaseLeases",
    "HubCheckpoints",
    "HubLeases",
    "MemoryCheckpoints",
    "Parked",
    "PositionMove",
    "SubscriptionCheckpoints",
]
