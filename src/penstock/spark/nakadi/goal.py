"""Where a query is to end that reads what there is: the newest event of each partition when it began."""

from penstock.spark.nakadi.cursors import Cursors, NakadiPartition, advanced, behind, is_before


class Goal:
    """The *ends* of the partitions that are to be come to, and how far a reader is."""

    def __init__(self, ends: Cursors) -> None:
        self._ends = ends
        self._stands: dict[NakadiPartition, str] = {}

    def see(self, cursors: Cursors) -> None:
        """Take note that all is read up to *cursors*, here or by others."""
        self._stands = advanced(self._stands, cursors)

    def has(self, place: NakadiPartition) -> bool:
        """Tell whether a partition is read as far as it is to be."""
        return place not in self._ends or not is_before(self._stands.get(place), self._ends[place])

    @property
    def missing(self) -> Cursors:
        """The ends that have not been come to."""
        return behind(self._stands, self._ends)
