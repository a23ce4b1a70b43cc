"""Projects what Spark reads, in rounds, up to where it ends when it begins."""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec import inspect
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import BadParameter, HandlerFailed
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_count, check_members
from penstock.processing.projections.projection import Fold, Projection
from penstock.spark.processors.reading import ProcessingPlan
from penstock.spark.processors.session import check_sendable, check_session, cores_of
from penstock.spark.processors.sources.feeds import spark_source
from penstock.spark.processors.sources.source import Look, SparkSource, Then, TrancheRange
from penstock.spark.projections.folding import KEYED_SQL, ROWS_SQL, FoldAll, RowFinder

__all__ = ["project"]

_CACHE: Final = "__msgspec_cache__"


def make_sendable(state: type) -> None:
    """Take away what msgspec has noted in the classes of a state, so that they can be sent; it notes it again.

    A class that is defined in a program, and in no module of its own, is sent whole. Of dataclasses and named tuples
    those notes would be a part, which cannot be sent.

    Raises:
        BadParameter: there is a Struct among them that would have to be sent whole. It would come without its fields.
    """
    for each in _classes(state):
        if issubclass(each, msgspec.Struct) and not _is_found(each):
            allowed = (
                "a dataclass; or a Struct in a module that executors import, since Spark sends it without its fields"
            )
            raise BadParameter(parameter="state", value=f"{each.__qualname__} of {each.__module__}", allowed=allowed)
        if _CACHE in vars(each):
            delattr(each, _CACHE)


def _is_found(made: type) -> bool:
    """Tell whether a class can be imported, so that only its name is sent."""
    if made.__module__ == "__main__" or made.__module__ not in sys.modules:
        return False
    found: Any = sys.modules[made.__module__]
    for name in made.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is made


def _classes(state: type) -> Iterator[type]:
    """Yield the classes of a state: itself, and those that its fields are of."""
    seen: set[type] = set()
    left: list[Any] = [inspect.type_info(state)]
    while left:
        node = left.pop()
        if isinstance(node, tuple):
            left += node
        elif isinstance(node, inspect.Type | inspect.Field):
            made = getattr(node, "cls", None)
            if isinstance(made, type):
                if made in seen:
                    continue
                seen.add(made)
                yield made
            left += msgspec.structs.astuple(node)


EVENTS_PER_ROUND: Final = 5_000_000
_TARGETS: Final = "DatabaseTarget(projection, database) or FilesTarget(projection, path)"


class Round(NamedTuple):
    """The result of folding a round."""

    rows: DataFrame
    """As `folding.ROWS`: all rows, changed or not. To be evaluated once."""
    positions: Mapping[str, Position]
    """Where each tranche is read on, if nothing of it has failed; or begun with, where there was no position."""


class RoundResult(NamedTuple):
    """The changes that a target has stored for a round."""

    changed: int
    """Rows."""
    failures: Mapping[str, str]
    """Of tranches with an event that could not be folded: which and why. Their positions were left where they were."""


class ProjectionTarget(Protocol):
    """Where the rows of a projection are kept, with how far it is."""

    @property
    def projection(self) -> Projection[Any]:
        """Return the projection of the rows."""
        ...

    @property
    def fold(self) -> Fold:
        """The projection's, by which a row fails that could not be kept there."""
        ...

    def positions(self, spark: SparkSession) -> Mapping[str, Position]:
        """Return how far it is, by tranche."""
        ...

    def rows(self, spark: SparkSession) -> DataFrame | None:
        """Return the rows that there are, in the shape of events; None: there are none."""
        ...

    def keep(self, spark: SparkSession, found: Round) -> RoundResult:
        """Keep what came of a round."""
        ...


class Projected(NamedTuple):
    """The progress of a run."""

    events: int
    """Read; where indices have holes, at most."""
    changed: int
    """Rows that were written, those of several rounds counted in each."""
    rounds: int


def project(
    spark: SparkSession,
    target: ProjectionTarget,
    source: str | SparkSource,
    *event_types: str,
    fail_on_loss: bool = True,
    events_per_round: int = EVENTS_PER_ROUND,
    partitions: int | None = None,
    progress: Callable[[Projected], object] | None = None,
) -> Projected:
    """Fold the available events into the rows of a target, from its positions on, and return the progress.

    The target determines the projection. The rows and their positions equal those of its processor in one process,
    which can continue from there. A killed run can be restarted: each event is folded exactly once. A row that cannot
    be folded blocks no other of its round: it keeps its state before that event, its tranche keeps its position, and is
    read no further in this run.

    Args:
        spark: The session.
        target: The projection and the place of its rows: `FilesTarget(customers, "s3a://lake/read")`. A projection is
            sent to executors, which need Penstock, msgspec and PyArrow.
        source: The hub's address, as executors reach it; or a source that Spark reads, which nothing else may use.
        event_types: The feeds to read from a hub, at least one.
        fail_on_loss: For a hub: raise EventsLost if events are gone before they were read.
        events_per_round: The number of events to read at once; every round reads all stored rows.
        partitions: The number of tasks to which rows are shuffled; by default Spark's number of cores.
        progress: Called with the progress after each round.

    Raises:
        BadParameter: an argument has the wrong type or value; a feed ends before a position; or rows of the target are
            parked. Or the state is a Struct that is defined in the main program, or the projection has another value
            that Spark cannot send.
        HandlerFailed: events could not be folded; it names one of each tranche. All others were folded first, in these
            tranches those of the same round.
        CheckpointMoved: another processor of that name has committed in the meantime.
        EventsLost: events are gone, with *fail_on_loss*.
        EventsLost: a feed was recreated since its rows were made.
    """
    check_session(spark)
    check_members("target", target, ProjectionTarget, _TARGETS)
    projection = target.projection
    check_count("events_per_round", events_per_round)
    if partitions is not None:
        check_count("partitions", partitions)
    make_sendable(projection.table.state)
    check_sendable("projection", projection)
    chosen, shuffled = spark_source(source, event_types, fail_on_loss=fail_on_loss), partitions or cores_of(spark)
    chosen.open(spark)
    try:
        look = chosen.look()
        _begin(spark, target, chosen, look)
        return _project(spark, target, look, events_max=events_per_round, shuffled=shuffled, progress=progress)
    finally:
        chosen.close()


def _begin(spark: SparkSession, target: ProjectionTarget, source: SparkSource, look: Look) -> None:
    """Have it kept where tranches begin that have no position yet, before anything is folded.

    Another time that may be elsewhere: what comes until then would be lost.
    """
    kept = target.positions(spark)
    look.check(kept)
    new = {each: source.beginning(each, [*kept]) for each in look.tranches if each not in kept}
    if new:
        target.keep(spark, Round(spark.createDataFrame([], ROWS_SQL), new))


def _project(
    spark: SparkSession,
    target: ProjectionTarget,
    look: Look,
    *,
    events_max: int,
    shuffled: int,
    progress: Callable[[Projected], object] | None,
) -> Projected:
    projection, places = target.projection, tuple(look.tranches)
    plan = ProcessingPlan(places, tuple(map(look.numbering, places)), partitions=shuffled)
    keyed = Then(RowFinder(plan, projection), KEYED_SQL)
    done, failures = Projected(0, 0, 0), dict[str, str]()
    while stretches := _stretches(target.positions(spark), look, failures, events_max):
        standing = target.rows(spark)
        make_sendable(projection.table.state)
        events = look.reading(plan, stretches, (), keyed).events
        both = events if standing is None else events.unionByName(standing)
        rows = both.repartition(shuffled, "row").mapInArrow(FoldAll(plan, projection, target.fold), ROWS_SQL)
        kept = target.keep(spark, Round(rows, {each.tranche: each.position for each in stretches}))
        failures |= kept.failures
        count = sum(each.events for each in stretches)
        done = Projected(done.events + count, done.changed + kept.changed, done.rounds + 1)
        if progress is not None:
            progress(done)
    if failures:
        raise HandlerFailed.of("fold-failed", projection=projection.processor, failures=sorted(failures.values()))
    return done


def _stretches(
    positions: Mapping[str, Position], look: Look, failures: Mapping[str, str], events_max: int
) -> list[TrancheRange]:
    """Return what is to be read now: of each tranche an equal share, but of those with failures."""

    def next_of(tranche: str, most: int) -> TrancheRange | None:
        return look.stretch(tranche, positions.get(tranche), most)

    found = [each for name in look.tranches if name not in failures and (each := next_of(name, events_max))]
    share = max(1, events_max // max(1, len(found)))
    cut = (each if each.events <= share else next_of(each.tranche, share) for each in found)
    return [each for each in cut if each is not None]
