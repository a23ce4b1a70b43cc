"""The table of a projection as a target: the driver writes what executors have folded, with its checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import BadParameter
from penstock.processing.checkpoints.checkpoint import Advance, PositionMove
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.database import Connect, connector, transaction
from penstock.processing.engine.parking import Parked
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_kind
from penstock.processing.projections.columns import parse_key
from penstock.processing.projections.projection import Projection
from penstock.processing.projections.table import Row
from penstock.spark.projections.folding import as_events
from penstock.spark.projections.project import Round, RoundResult

__all__ = ["DatabaseTarget"]

NAMED_MAX: Final = 3
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class DatabaseTarget:
    """The same table as that of `Projection.local`, which can continue after a rebuild on Spark.

    The driver holds all its rows in memory in each round: choose few rounds for a rebuild, by `events_per_round`, and
    use files for projections that are too large.

    Args:
        projection: The projection.
        database: A URL, or a function that opens a connection; see `DatabaseCheckpoints`. The driver alone uses it.

    Raises:
        BadParameter: *projection* is not a Projection, or the database has another table of its name.
        ProjectionNotFound: its table no longer exists, but its checkpoint does.
    """

    def __init__(self, projection: Projection[Any], database: str | Connect) -> None:
        check_kind("projection", projection, Projection, "a Projection; the database comes after it")
        self.projection = projection
        self.fold = projection.fold
        self._connect = connector(database)
        self._checkpoints = DatabaseCheckpoints(self._connect, projection.processor)
        self._kept: dict[str, Position] = {}
        self._owner = uuid4().hex
        positions = self._checkpoints.positions()
        with transaction(self._connect) as connection:
            projection.table.create(connection, positions)

    def positions(self, spark: SparkSession) -> Mapping[str, Position]:  # noqa: ARG002 - The driver asks itself.
        """Return its positions by tranche, and take them over: commits of an earlier owner fail.

        Raises:
            BadParameter: it has parked streams. Their waiting events precede its positions, and are not read here.
        """
        self._kept = dict(self._checkpoints.positions())
        self._checkpoints.take_over(self._kept, self._owner)
        _check_none_parked(self.projection.processor, self._checkpoints.parked())
        return self._kept

    def rows(self, spark: SparkSession) -> DataFrame | None:
        """Return the rows that there are, in the shape of events; None: there are none."""
        with transaction(self._connect) as connection:
            found = self.projection.table.list_all(connection)
        told = [
            (_encode(key).decode(), None if row.state is None else _encode(row.state).decode(), _text(row.positions))
            for key, row in found.items()
        ]
        return spark.createDataFrame(as_events(told)) if told else None

    def keep(self, spark: SparkSession, found: Round) -> RoundResult:  # noqa: ARG002 - The rows have it.
        """Write the changed rows, and move the checkpoint with them, in one transaction.

        Raises:
            CheckpointMoved: another processor of that name has taken it over, or committed, meanwhile.
        """
        table, failures = self.projection.table, dict[str, str]()
        changed: dict[Any, Row] = {}
        for told in found.rows.filter("is_changed OR error IS NOT NULL").toArrow().to_pylist():
            if told["error"] is not None:
                failures[told["failed"]] = f"row {told['key']}, {told['error']}"
            if told["is_changed"]:
                state = None if told["state"] is None else msgspec.json.decode(told["state"], type=table.state)
                changed[parse_key(table.key, told["key"])] = Row(state, msgspec.json.decode(told["positions"]))
        # What stays is compared, too: rows of another that has it now are not to be overwritten.
        stays = {tranche: PositionMove(position, position) for tranche, position in self._kept.items()}
        moves = {
            tranche: PositionMove(self._kept.get(tranche), position)
            for tranche, position in found.positions.items()
            if tranche not in failures
        }
        with transaction(self._connect) as connection:
            table.store(connection, changed)
            self._checkpoints.commit_in(connection, Advance(stays | moves, owner=self._owner))
        return RoundResult(len(changed), failures)


def _check_none_parked(processor: str, parked: Sequence[Parked]) -> None:
    streams = [*dict.fromkeys(each.stream for each in parked)]
    if not streams:
        return
    named = ", ".join(streams[:NAMED_MAX]) + (f" and {more} more" if (more := len(streams) - NAMED_MAX) > 0 else "")
    allowed = (
        "one of which nothing is parked: have its processor handle what waits, by "
        f"`penstock groups parked retry {processor} --all`, or skip it, or build another version"
    )
    raise BadParameter(parameter="target", value=f"{processor}, of which is parked: {named}", allowed=allowed)


def _text(positions: Mapping[str, int]) -> str:
    return _encode(positions).decode()
