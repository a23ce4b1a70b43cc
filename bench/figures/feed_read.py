"""How fast feeds are read."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.load.program import Program, together
from bench.logs import make_log
from bench.measure import Side, in_turn
from bench.place import Place, file_of
from bench.servers import serving
from penstock.testing.live_hub import LiveHub


class ServedLog(NamedTuple):
    """A log in SQLite behind a hub."""

    url: str
    partition_id: int
    hub: LiveHub


@contextmanager
def served_log(place: Place, events: int) -> Iterator[ServedLog]:
    """Make a log and serve it."""
    url = place.sqlite()
    partition_id = make_log(url, events)
    with place.hub(url) as hub:
        yield ServedLog(url, partition_id, hub)
    place.drop(url)


def reader(port: int, form: str, scale: Scale) -> Program:
    """Return a reader of the whole log in one of the forms that `bench.load.read` knows."""
    first = "0" if form == "plain" else "_first"
    return Program(
        "bench.load.read", port=port, feed=FEED, form=form, page=scale.page, events=scale.events, first=first
    )


def rate_of(program: Program, scale: Scale) -> Side:
    """Return the side that is the program's rate."""
    return lambda: float(program(seconds=scale.seconds)["rate"])


def total(programs: list[Program], scale: Scale) -> float:
    """Run all of them together; return the sum of their rates."""
    return sum(_rates(together(programs, seconds=scale.seconds)))


@figure("feed-read", "reading")
def feed_read(place: Place, scale: Scale) -> Iterable[Row]:
    """Feed read: one connection, NDJSON, SQLite."""
    with ExitStack() as stack:
        log = stack.enter_context(served_log(place, scale.events))
        given = {"url": log.url, "partition_id": log.partition_id, "events": scale.events}
        hub = stack.enter_context(reader(log.hub.port, "v1", scale))
        python = stack.enter_context(Program("bench.beside.rows", **given, joined_in="python"))
        sql = stack.enter_context(Program("bench.beside.rows", **given, joined_in="sql"))
        sides = {"hub": hub, "python": python, "sql": sql}
        rounds = in_turn({name: rate_of(program, scale) for name, program in sides.items()}, scale.rounds)
    for side, what, target in (
        ("python", "the same rows fetched and joined in Python, without HTTP", Target(">=", 0.7)),
        ("sql", "the same rows joined in SQL as the store does, without HTTP", None),
    ):
        beside = rate(rounds.median(side))
        yield Row(f"hub beside {what}", rate(rounds.median("hub")), beside, rounds.ratio("hub", side), target)


@figure("starlette", "reading")
def starlette(place: Place, scale: Scale) -> Iterable[Row]:
    """Feed read beside a Starlette app with `json.dumps` per event, over the same rows."""
    with ExitStack() as stack:
        log = stack.enter_context(served_log(place, scale.events))
        sides = {"hub": stack.enter_context(reader(log.hub.port, "v1", scale))}
        for loads in ("loads", "text"):
            given = (file_of(log.url), log.partition_id, loads)
            app = stack.enter_context(serving("bench.beside.starlette_app", *given))
            sides[loads] = stack.enter_context(reader(app.port, "plain", scale))
        rounds = in_turn({name: rate_of(program, scale) for name, program in sides.items()}, scale.rounds)
    for side, what, target in (
        ("loads", "`json.loads` of the stored event, then `json.dumps` of the line", Target(">=", 10)),
        ("text", "`json.dumps` of the line with the stored event as a string in it", None),
    ):
        beside = rate(rounds.median(side))
        yield Row(f"hub beside {what}", rate(rounds.median("hub")), beside, rounds.ratio("hub", side), target)


@figure("arrow", "reading")
def arrow(place: Place, scale: Scale) -> Iterable[Row]:
    """Arrow pages beside NDJSON, SQLite."""
    forms = ("arrow", "lines")
    with ExitStack() as stack:
        log = stack.enter_context(served_log(place, scale.events))
        given = {"port": log.hub.port, "feed": FEED, "page": scale.page, "events": scale.events}
        read = {form: stack.enter_context(reader(log.hub.port, form, scale)) for form in forms}
        taken = {form: stack.enter_context(Program("bench.load.take", **given, form=form)) for form in forms}
        for what, programs, target in (
            ("pages that nobody looks into", read, Target(">=", 1.0)),
            ("pages read into columns by PyArrow, and lines decoded by msgspec", taken, None),
        ):
            rounds = in_turn({form: rate_of(program, scale) for form, program in programs.items()}, scale.rounds)
            ours, beside = rate(rounds.median("arrow")), rate(rounds.median("lines"))
            yield Row(f"Arrow beside NDJSON: {what}", ours, beside, rounds.ratio("arrow", "lines"), target)


@figure("readers", "reading")
def readers(place: Place, scale: Scale) -> Iterable[Row]:
    """Four readers together beside one, SQLite."""
    with ExitStack() as stack:
        log = stack.enter_context(served_log(place, scale.events))
        four = [stack.enter_context(reader(log.hub.port, "v1", scale)) for _ in range(4)]
        rounds = in_turn({"four": lambda: total(four, scale), "one": lambda: total(four[:1], scale)}, scale.rounds)
    ours, beside = rate(rounds.median("four")), rate(rounds.median("one"))
    yield Row("four together beside one alone", ours, beside, rounds.ratio("four", "one"), Target(">=", 1.0))


@figure("mixed", "reading")
def mixed(place: Place, scale: Scale) -> Iterable[Row]:
    """Two readers beside two publishers on one feed, SQLite; batches of 1000."""
    with ExitStack() as stack:
        log = stack.enter_context(served_log(place, scale.events))
        two = [stack.enter_context(reader(log.hub.port, "v1", scale)) for _ in range(2)]
        given = {"port": log.hub.port, "feed": FEED, "batch": 1000}
        publishers = [stack.enter_context(Program("bench.load.publish", **given)) for _ in range(2)]
        together_read: list[float] = []

        def publish_beside() -> float:
            rates = _rates(together([*publishers, *two], seconds=scale.seconds))
            together_read.append(sum(rates[2:]))
            return sum(rates[:2])

        sides = {
            "read alone": lambda: total(two, scale),
            "publish beside": publish_beside,
            "read beside": lambda: together_read[-1],
            "publish alone": lambda: total(publishers, scale),
        }
        rounds = in_turn(sides, scale.rounds)
    for kind, who in (("read", "two readers"), ("publish", "two publishers")):
        beside, alone = f"{kind} beside", f"{kind} alone"
        what = f"{who} beside the others, and alone"
        ours = rate(rounds.median(beside))
        yield Row(what, ours, rate(rounds.median(alone)), rounds.ratio(beside, alone), Target(">=", 0.4))


def _rates(results: list[Any]) -> list[float]:
    return [float(result["rate"]) for result in results]
