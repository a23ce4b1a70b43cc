"""Whether publishing stays fast while somebody keeps a transaction open on PostgreSQL, so that nothing is vacuumed."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psycopg

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.load.program import Program, together
from bench.logs import make_feed
from bench.place import Place

MINUTES = 10
PUBLISHERS = 8
TARGET = Target(">=", 0.8)


@figure("held-transaction", "publishing", asked_for=True)
def held_transaction(place: Place, scale: Scale) -> Iterable[Row]:
    """Ten minutes of publishing beside an open transaction, PostgreSQL; by name only."""
    rates = publish_beside_a_held_transaction(place, MINUTES, 2.0 if scale.quick else 60.0)
    first, last = rates[0], rates[-1]
    for way in ("over HTTP", "by the outbox"):
        what = f"{way}: the last minute beside the first"
        yield Row(what, rate(last[way]), rate(first[way]), last[way] / first[way], TARGET)


def publish_beside_a_held_transaction(place: Place, minutes: int, seconds: float) -> list[dict[str, float]]:
    """Publish single events, over HTTP and by the outbox, for *minutes* of so many *seconds*; return their rates."""
    url = place.postgres()
    make_feed(url)
    with (
        place.hub(url) as hub,
        Program("bench.load.publish_single", port=hub.port, feed=FEED, connections=PUBLISHERS) as over_http,
        Program("bench.load.outbox_flood", url=url, feed=FEED) as by_outbox,
    ):
        over_http(seconds=seconds / 10)  # Warms up.
        with transaction_held_open(url):
            rates = []
            for _ in range(minutes):
                results = together([over_http, by_outbox], seconds=seconds)
                rates.append({"over HTTP": results[0]["rate"], "by the outbox": results[1]["rate"]})
            return rates


@contextmanager
def transaction_held_open(url: str) -> Iterator[None]:
    """Hold a transaction with a number and a snapshot, as a forgotten session does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT pg_current_xact_id(), count(*) FROM penstock_event")
        yield
