"""How fast events are published over HTTP, on disk when the answer comes."""

from collections.abc import Iterable
from contextlib import ExitStack

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.feed_read import rate_of, total
from bench.load.program import Program
from bench.logs import make_feed
from bench.measure import in_turn
from bench.place import Place
from bench.servers import serving

BATCH = 1000
PUBLISHERS = 32


@figure("publish-batches", "publishing")
def publish_batches(place: Place, scale: Scale) -> Iterable[Row]:
    """Publishing batches of 1000 over one connection."""
    yield from _batches(place, scale, "SQLite", "`executemany` of the same rows into the same table, same durability")
    yield from _batches(place, scale, "PostgreSQL", "`COPY` of the same rows into the same table, same durability")


def _batches(place: Place, scale: Scale, kind: str, what: str) -> Iterable[Row]:
    ours, theirs = place.database(kind), place.database(kind)
    make_feed(ours)
    [partition_id] = make_feed(theirs)
    with ExitStack() as stack:
        hub = stack.enter_context(place.hub(ours))
        given = {"port": hub.port, "feed": FEED, "batch": BATCH}
        four = [stack.enter_context(Program("bench.load.publish", **given)) for _ in range(4)]
        inserts = stack.enter_context(
            Program("bench.beside.inserts", url=theirs, partition_id=partition_id, batch=BATCH)
        )
        sides = {
            "one": rate_of(four[0], scale),
            "beside": rate_of(inserts, scale),
            "four": lambda: total(four, scale),
        }
        rounds = in_turn(sides, scale.rounds)
    place.drop(ours)
    place.drop(theirs)
    beside = rate(rounds.median("beside"))
    one = rate(rounds.median("one"))
    yield Row(f"{kind}: hub beside {what}", one, beside, rounds.ratio("one", "beside"), Target(">=", 0.5))
    four_rate = rate(rounds.median("four"))
    yield Row(f"{kind}: the same with four connections to the hub", four_rate, beside, rounds.ratio("four", "beside"))


@figure("group-commit", "publishing")
def group_commit(place: Place, scale: Scale) -> Iterable[Row]:
    """32 concurrent publishers of single events, beside the same hub with one commit per request."""
    for kind, target in (("SQLite", 1.3), ("PostgreSQL", 1.5)):
        grouped, each = place.database(kind), place.database(kind)
        make_feed(grouped)
        make_feed(each)
        with ExitStack() as stack:
            hub = stack.enter_context(place.hub(grouped))
            single = stack.enter_context(serving("bench.beside.one_commit_each", each))
            given = {"feed": FEED, "connections": PUBLISHERS}
            ours = stack.enter_context(Program("bench.load.publish_single", port=hub.port, **given))
            theirs = stack.enter_context(Program("bench.load.publish_single", port=single.port, **given))
            rounds = in_turn({"ours": rate_of(ours, scale), "theirs": rate_of(theirs, scale)}, scale.rounds)
        place.drop(grouped)
        place.drop(each)
        yield Row(
            f"{kind}: group commit beside one commit per request",
            rate(rounds.median("ours")),
            rate(rounds.median("theirs")),
            rounds.ratio("ours", "theirs"),
            Target(">=", target),
        )
