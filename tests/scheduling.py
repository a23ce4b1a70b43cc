"""Which worker of pytest-xdist runs a test."""

from typing import Final

from xdist.scheduler import LoadFileScheduling

SPARK: Final = "tests/spark/"
"""The folder whose files all run in one worker."""
KAFKA: Final = ("tests/processing/test_kafka_source.py", "tests/processing/test_source_contract.py")
"""Files that run in one worker, and share a broker."""


class OneWorkerForSpark(LoadFileScheduling):
    """Gives whole files to workers, all tests with Spark to one of them, and those with a broker alone to one.

    A session of Spark takes as long to start and to warm up as twenty of its tests, and so does a broker.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        if scope.startswith(SPARK):
            return SPARK
        return KAFKA[0] if scope in KAFKA else scope
