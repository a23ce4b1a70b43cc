"""Serves a hub in this process."""

import ctypes
import sys

import uvicorn

from penstock.server import HubApp

GRACE_SECONDS = 10


def serve_hub(database: str, host: str, port: int) -> None:
    """Serve the hub on *database* until SIGTERM or SIGINT; waits end at once, what is under way has ten seconds."""
    keep_large_blocks()
    uvicorn.run(
        HubApp(database),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
    )


def keep_large_blocks() -> None:
    """Have the C library keep freed blocks of a chunk's size instead of giving them back to the system each time.

    Every chunk would otherwise be made of fresh pages that the kernel has to clear: measured, a third of the reading speed.
    """
    if not sys.platform.startswith("linux"):
        return
    mmap_threshold, trim_threshold = -3, -1
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # Another C library than glibc has its own ways.
    mallopt(mmap_threshold, 64 << 20)
    mallopt(trim_threshold, 256 << 20)
