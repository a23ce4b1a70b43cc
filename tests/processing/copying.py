"""Copies a feed to another, to be killed: `python -m tests.processing.copying URL SOURCE TARGET CHECKPOINTS`."""

import sys

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints, FeedSource, LocalProcessor, Rules
from penstock.processing.targets import HubTarget, copy_streams


def main(url: str, source: str, target: str, database: str) -> None:
    with Client(url) as client:
        handler = copy_streams(HubTarget(client, target, "copier"), dense=False)
        checkpoints = DatabaseCheckpoints(database, "copier")
        rules = Rules(events_per_call=7)
        with LocalProcessor(
            handler, FeedSource(url, source), checkpoints=checkpoints, rules=rules, commit_interval=0.05
        ):
            print("copying", flush=True)  # noqa: T201 - The test waits for it.
            sys.stdin.read(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
