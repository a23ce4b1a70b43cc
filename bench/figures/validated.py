"""What it costs to validate events by a schema when they are published."""

from collections.abc import Iterable
from contextlib import ExitStack

from bench.events import BUSINESS_FEED, BUSINESS_SCHEMA, FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.feed_read import rate_of
from bench.load.program import Program
from bench.measure import in_turn
from bench.place import Place
from penstock.client import Client

BATCH = 1000
FREE = f"{BUSINESS_FEED}.free"


@figure("publish-validated", "publishing")
def publish_validated(place: Place, scale: Scale) -> Iterable[Row]:
    """Publishing validated business events in batches of 1000 over one connection, in Nakadi's shape."""
    for kind in ("SQLite", "PostgreSQL"):
        url = place.database(kind)
        with ExitStack() as stack:
            hub = stack.enter_context(place.hub(url))
            _create(hub.url)
            sides = {}
            for feed in (BUSINESS_FEED, FREE, FEED):
                given = {"port": hub.port, "feed": feed, "batch": BATCH, "shape": "array"}
                sides[feed] = rate_of(stack.enter_context(Program("bench.load.publish", **given)), scale)
            rounds = in_turn(sides, scale.rounds)
        place.drop(url)
        validated = rate(rounds.median(BUSINESS_FEED))
        for beside, what, target in (
            (FREE, "the same with schema `{}`", Target(">=", 0.6)),
            (FEED, "the same bytes as events of the category undefined, with schema `{}`", None),
        ):
            ratio = rounds.ratio(BUSINESS_FEED, beside)
            yield Row(
                f"{kind}: validated business events beside {what}",
                validated,
                rate(rounds.median(beside)),
                ratio,
                target,
            )


def _create(url: str) -> None:
    with Client(url) as client:
        client.create_event_type(BUSINESS_FEED, category="business", schema=BUSINESS_SCHEMA)
        client.create_event_type(FREE, category="business")
        client.create_event_type(FEED)
