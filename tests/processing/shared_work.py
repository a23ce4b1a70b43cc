"""One of several processors of a name: `python -m tests.processing.shared_work HUB DATABASE FEED FOLDER`."""

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.processing import DatabaseCheckpoints, FeedSource, HubCheckpoints, LocalProcessor, Rules
from penstock.processing.checkpoints import HubLeases
from penstock.processing.checkpoints.leases import DatabaseLeases

LEASE_SECONDS = 4.0
HUB = "hub"


def handler_in(folder: str) -> Any:
    """Return a handler that writes down what it is given, and sees to it that no other is given it meanwhile."""

    def handle(stream: str, events: Sequence[Any]) -> None:
        busy = Path(folder) / f"{stream}.busy"
        with Path(folder, f"{stream}.log").open("a") as file:
            try:
                busy.touch(exist_ok=False)
            except FileExistsError:
                if _is_running(int(busy.read_text() or 0)):
                    file.write("two at once\n")
            busy.write_text(str(os.getpid()))
            time.sleep(0.002)
            file.writelines(f"{event.data['n']}\n" for event in events)
        busy.unlink(missing_ok=True)

    return handle


def _is_running(pid: int) -> bool:
    return pid != os.getpid() and Path(f"/proc/{pid}").exists()


def keepers(
    url: str, database: str, name: str
) -> tuple[HubCheckpoints | DatabaseCheckpoints, HubLeases | DatabaseLeases]:
    """Return where a processor keeps its positions and leases: a database, or the hub where that is `HUB`."""
    if database == HUB:
        return HubCheckpoints(url, name), HubLeases(url, name, lease_seconds=LEASE_SECONDS)
    return DatabaseCheckpoints(database, name), DatabaseLeases(database, name, lease_seconds=LEASE_SECONDS)


def main(url: str, database: str, feed: str, folder: str) -> None:
    checkpoints, leases = keepers(url, database, feed)
    rules = Rules(concurrency=2, events_per_call=5, events_ahead=100)
    source = FeedSource(url, feed)
    with LocalProcessor(
        handler_in(folder), source, checkpoints=checkpoints, leases=leases, rules=rules, commit_interval=0.1
    ):
        sys.stdout.write("running\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
