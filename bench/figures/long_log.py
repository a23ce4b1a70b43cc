"""What a page costs at the end of a long log."""

from collections.abc import Iterable
from contextlib import ExitStack

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure
from bench.load.program import Program
from bench.logs import cursor_at, make_log
from bench.measure import Side, in_turn
from bench.place import Place

PAGE = 1000
SHORT = 10_000


@figure("long-log", "reading")
def long_log(place: Place, scale: Scale) -> Iterable[Row]:
    """A page of 1000 read at the end of 10 million events, beside one at the end of 10 thousand."""
    long = 1_000_000 if scale.quick else 10_000_000
    for kind in ("SQLite", "PostgreSQL"):
        urls = {"long": place.database(kind), "short": place.database(kind)}
        with ExitStack() as stack:
            sides: dict[str, Side] = {}
            for (name, url), count in zip(urls.items(), (long, SHORT), strict=True):
                make_log(url, count)
                hub = stack.enter_context(place.hub(url))
                given = {"port": hub.port, "feed": FEED, "form": "v1", "page": PAGE, "events": PAGE}
                program = stack.enter_context(Program("bench.load.read", **given, first=cursor_at(count - PAGE)))
                sides[name] = _milliseconds(program, scale)
            rounds = in_turn(sides, scale.rounds)
        for url in urls.values():
            place.drop(url)
        ours, beside = rounds.median("long"), rounds.median("short")
        what = f"{kind}: the last {PAGE} of {long // 1_000_000} million, and of {SHORT // 1000} thousand"
        yield Row(what, f"{ours:.2f} ms", f"{beside:.2f} ms", rounds.ratio("long", "short"), Target("<=", 1.2))


def _milliseconds(program: Program, scale: Scale) -> Side:
    return lambda: float(program(seconds=scale.seconds)["page_ms"])
