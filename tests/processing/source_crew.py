"""One of several processors of a place: `python -m tests.processing.source_crew KIND ADDRESS NAME DATABASE FOLDER`."""

import sys
import threading

from penstock.processing import DatabaseCheckpoints, LocalProcessor, Rules
from penstock.processing.checkpoints.leases import DatabaseLeases
from tests.processing.shared_work import LEASE_SECONDS, handler_in
from tests.processing.source_places import source_of


def main(kind: str, address: str, name: str, database: str, folder: str) -> None:
    checkpoints = DatabaseCheckpoints(database, "crew")
    leases = DatabaseLeases(database, "crew", lease_seconds=LEASE_SECONDS)
    rules = Rules(concurrency=2, events_per_call=5, events_ahead=100)
    source = source_of(kind, address, name)
    with LocalProcessor(
        handler_in(folder), source, checkpoints=checkpoints, leases=leases, rules=rules, commit_interval=0.1
    ):
        sys.stdout.write("running\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
