"""What it costs to have each event stored at most once."""

from collections.abc import Iterable
from contextlib import ExitStack

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.feed_read import rate_of
from bench.load.program import Program
from bench.logs import make_feed
from bench.measure import in_turn
from bench.place import Place

TARGETS = {("SQLite", 1000): 0.75, ("SQLite", 100): 0.7, ("PostgreSQL", 1000): 0.65, ("PostgreSQL", 100): 0.6}


@figure("publish-idempotent", "publishing")
def publish_idempotent(place: Place, scale: Scale) -> Iterable[Row]:
    """Idempotent publishing over one connection, beside plain publishing of the same lines."""
    for (kind, batch), target in TARGETS.items():
        url = place.database(kind)
        make_feed(url)
        with ExitStack() as stack:
            hub = stack.enter_context(place.hub(url))
            given = {"port": hub.port, "feed": FEED, "batch": batch}
            loads = {
                "plain": Program("bench.load.publish", **given),
                "idempotent": Program("bench.load.produce", **given),
                "plain client": Program("bench.load.client", **given, kind="plain"),
                "idempotent client": Program("bench.load.client", **given, kind="idempotent"),
            }
            sides = {name: rate_of(stack.enter_context(load), scale) for name, load in loads.items()}
            rounds = in_turn(sides, scale.rounds)
        place.drop(url)
        for ours, beside, what in (
            ("idempotent", "plain", f"{kind}: batches of {batch}, numbered beside plain"),
            ("idempotent client", "plain client", f"{kind}: the same with the Python clients"),
        ):
            mine, theirs = rate(rounds.median(ours)), rate(rounds.median(beside))
            yield Row(what, mine, theirs, rounds.ratio(ours, beside), Target(">=", target))
