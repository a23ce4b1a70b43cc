"""What the doctors of both databases say alike."""

from typing import Final

from penstock.storage.store import Finding

BACKLOG_MAX: Final = 10_000
"""So many rows wait in an outbox that nobody moves."""


def outbox_finding(waiting: int) -> Finding:
    """Judge how many rows wait in the outbox."""
    return Finding("outbox", waiting < BACKLOG_MAX, f"{waiting} rows wait to be moved")


def rejected_finding(rejected: int) -> Finding:
    """Judge how many outbox rows could not be published."""
    return Finding("rejected", rejected == 0, f"{rejected} could not be published: see `penstock rejected list`")
