"""Checkpoints some of whose commits fail, or are kept without anybody being told."""

from collections.abc import Mapping, Sequence

from penstock.core.groups.parking import Request
from penstock.errors import OutcomeUnknown, Unavailable
from penstock.processing.checkpoints.checkpoint import Advance, Checkpoints, check_checkpoints
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.engine.tranche import Position
from penstock.testing.processing.times import Times, check_times, never


class FaultyCheckpoints:
    """Passes commits to other checkpoints, except those that fail.

    Args:
        checkpoints: The checkpoints that store the commits.
        fails: Commits that fail, counted from 1; nothing of them is stored.
        loses: Commits whose answer is lost: they are stored, but the processor gets an error.

    Raises:
        BadParameter: an argument has the wrong type.
        Unavailable: (`commit`) this commit fails.
        OutcomeUnknown: (`commit`) the answer is lost.
    """

    def __init__(self, checkpoints: Checkpoints, *, fails: Times = never, loses: Times = never) -> None:
        check_checkpoints(checkpoints)
        check_times("fails", fails)
        check_times("loses", loses)
        self.failures = 0
        """How many commits have failed, or lost their answer, by this."""
        self._checkpoints = checkpoints
        self._fails = fails
        self._loses = loses
        self._commits = 0

    @property
    def keeps_parked(self) -> bool:
        """Return whether parked streams are kept."""
        return self._checkpoints.keeps_parked

    def positions(self) -> Mapping[str, Position]:
        """Return where the processor has come to, by tranche."""
        return self._checkpoints.positions()

    def parked(self) -> Sequence[Parked]:
        """Return what is parked, the oldest first."""
        return self._checkpoints.parked()

    def requests(self) -> Mapping[Place, Request]:
        """Return what is wanted of parked streams."""
        return self._checkpoints.requests()

    def commit(self, advance: Advance) -> None:
        """Keep *advance*, or raise."""
        self._commits += 1
        number = self._commits
        if self._fails(number):
            self.failures += 1
            raise Unavailable(reason="a fault was injected into a commit")
        self._checkpoints.commit(advance)
        if self._loses(number):
            self.failures += 1
            raise OutcomeUnknown(reason="the answer to a commit was lost, as a test has it")
