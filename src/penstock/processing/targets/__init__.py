"""Targets of the handler that `copy_streams` returns: another hub, or a MessageDB."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import export_lazily

if TYPE_CHECKING:
    from penstock.processing.targets.copying import copy_streams
    from penstock.processing.targets.hub import HubTarget
    from penstock.processing.targets.messagedb import MessagedbTarget
    from penstock.processing.targets.target import Attained, Duplicate, Partial, PrefixMissing, SyncTarget, Written
else:
    __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "processing.targets.copying": ["copy_streams"],
            "processing.targets.hub": ["HubTarget"],
            "processing.targets.messagedb": ["MessagedbTarget"],
            "processing.targets.target": ["Attained", "Duplicate", "Partial", "PrefixMissing", "SyncTarget", "Written"],
        },
    )

__all__ = [
    "Attained",
    "Duplicate",
    "HubTarget",
    "MessagedbTarget",
    "Partial",
    "PrefixMissing",
    "SyncTarget",
    "Written",
    "copy_streams",
]
