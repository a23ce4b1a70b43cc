"""Projects feeds on Spark, in rounds, up to where they end when it begins."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import FoldFailed
from penstock.processing.engine.item import Position
from penstock.processing.projections.projection import Projection
from penstock.processing.sources.feed import FeedSource
from penstock.processing.sources.feed_position import FeedPosition, encode_tranche
from penstock.spark.connection import Hub
from penstock.spark.heads import Heads, recreated
from penstock.spark.loss import report_loss
from penstock.spark.processors.cores import cores_of
from penstock.spark.processors.plan import Plan
from penstock.spark.processors.reading import EVENTS_SQL
from penstock.spark.projections.folding import ROWS_SQL, FoldAll, KeyedRead
from penstock.spark.ranges import Range, plan_tasks

EVENTS_PER_ROUND: Final = 5_000_000
RETRY_SECONDS: Final = 60.0


class Round(NamedTuple):
    """What came of a round."""

    rows: DataFrame
    """As `folding.ROWS`: all rows, changed or not. To be evaluated once."""
    positions: Mapping[str, Position]
    """Where each tranche is read on, if nothing of it has failed."""


class Kept(NamedTuple):
    """What a target has kept of a round."""

    changed: int
    """Rows."""
    failures: Mapping[str, str]
    """Of tranches with an event that could not be folded: which and why. Their positions were left where they were."""


class Target(Protocol):
    """Where the rows of a projection are kept, with how far it is."""

    def positions(self, spark: SparkSession) -> Mapping[str, Position]:
        """Return how far it is, by tranche."""
        ...

    def rows(self, spark: SparkSession) -> DataFrame | None:
        """Return the rows that there are, in the shape of events; None: there are none."""
        ...

    def keep(self, spark: SparkSession, found: Round) -> Kept:
        """Keep what came of a round."""
        ...


class Projected(NamedTuple):
    """What was done."""

    events: int
    """Read."""
    changed: int
    """Rows that were written, those of several rounds counted in each."""
    rounds: int


def project(
    spark: SparkSession,
    projection: Projection[Any],
    url: str,
    *event_types: str,
    to: Target,
    fail_on_loss: bool = True,
    events_per_round: int = EVENTS_PER_ROUND,
    partitions: int | None = None,
    progress: Callable[[Projected], object] | None = None,
) -> Projected:
    """Fold the events that feeds have into the rows of a projection, from where it was left, and return what was done.

    The rows and their positions are those that the projection's processor makes in one process, which can go on from
    there. What is killed is begun again where it was: an event that is folded in is never folded in twice. A row that
    cannot be folded holds no other; it stays as it was before that event, and so does the position of its partition.

    Args:
        spark: The session.
        projection: What is folded. It is sent to the executors, which need Penstock and its dependencies.
        url: The hub's address, as executors reach it.
        event_types: Which feeds, at least one.
        to: Where the rows are kept.
        fail_on_loss: Whether it is an error that events are gone which were not read.
        events_per_round: How many are read at once; the rows that there are, are read in every round.
        partitions: Into how many tasks rows are shuffled; by default as many as Spark has cores.
        progress: Called after each round with what was done so far.

    Raises:
        FoldFailed: an event could not be folded, after all others were.
        CheckpointMoved: another processor of that name has committed meanwhile.
        EventsLost: events are gone, and that is to fail.
    """
    hub, shuffled = Hub(url, RETRY_SECONDS), partitions or cores_of(spark)
    heads = {event_type: hub.heads(event_type) for event_type in event_types}
    with FeedSource(url, *event_types) as source:
        hashed = frozenset(name for name in event_types if source.is_hashed(name))
    places = tuple(sorted((name, at) for name, head in heads.items() for at in range(len(head.nexts))))
    done, failures = Projected(0, 0, 0), dict[str, str]()
    while ranges := _ranges(to.positions(spark), heads, failures, events_per_round, fail_on_loss=fail_on_loss):
        tasks = tuple(plan_tasks(ranges, min_tasks=None, cores=shuffled))
        plan = Plan(hub, places, tasks, hashed=hashed, fail_on_loss=fail_on_loss)
        events = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(KeyedRead(plan, projection), EVENTS_SQL)
        standing = to.rows(spark)
        both = events if standing is None else events.unionByName(standing)
        rows = both.repartition(shuffled, "stream").mapInArrow(FoldAll(plan, projection), ROWS_SQL)
        kept = to.keep(spark, Round(rows, {_tranche(each): _position(each) for each in ranges}))
        failures |= kept.failures
        count = sum(each.events for each in ranges)
        done = Projected(done.events + count, done.changed + kept.changed, done.rounds + 1)
        if progress is not None:
            progress(done)
    if failures:
        raise FoldFailed(projection=projection.processor, failures=sorted(failures.values()))
    return done


def _ranges(
    positions: Mapping[str, Position],
    heads: Mapping[str, Heads],
    failures: Mapping[str, str],
    events_max: int,
    *,
    fail_on_loss: bool,
) -> list[Range]:
    """Return what is to be read now: of each partition an equal share, but of those with failures."""
    found = []
    for name, head in heads.items():
        for partition, (floor, end) in enumerate(zip(head.floors, head.nexts, strict=True)):
            tranche = encode_tranche(name, partition)
            start = floor
            if tranche in positions:
                place = FeedPosition.decode(str(positions[tranche]))
                start = place.offset
                if place.epoch != head.epoch:
                    reason = recreated(place.epoch, head.epoch)
                    report_loss(fail_on_loss, event_type=name, partition=partition, lost=None, reason=reason)
                    start = floor
            if start < end and tranche not in failures:
                found.append(Range(name, head.epoch, len(head.nexts), partition, start, end))
    share = max(1, events_max // max(1, len(found)))
    return [each._replace(end=min(each.end, each.start + share)) for each in found]


def _tranche(wanted: Range) -> str:
    return encode_tranche(wanted.event_type, wanted.partition)


def _position(wanted: Range) -> str:
    return FeedPosition(wanted.epoch, wanted.end).encode()
