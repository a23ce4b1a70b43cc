"""Which worker of pytest-xdist runs a test."""

from typing import Final

from xdist.scheduler import LoadFileScheduling

SHARED: Final = "tests/spark/"
"""The folder whose files all run in one worker."""


class OneWorkerForSpark(LoadFileScheduling):
    """Gives whole files to workers, and all tests with Spark to one of them.

    A session of Spark takes as long to start and to warm up as twenty of its tests.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return SHARED if scope.startswith(SHARED) else scope
