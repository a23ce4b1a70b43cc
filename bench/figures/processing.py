"""How fast processors handle, project and react."""

from collections.abc import Iterable
from statistics import median, quantiles

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.load.program import Program
from bench.logs import make_feed
from bench.measure import in_turn
from bench.place import Place
from penstock.client import Client
from penstock_demo.dataset import Series, load

STREAMS = 20_000
DEPARTURES = "flights.departed"


@figure("processing-local", "processing")
def processing_local(place: Place, scale: Scale) -> Iterable[Row]:  # noqa: ARG001 - It needs none.
    """Local runner with a handler that does nothing, events in memory, one process."""
    events = 50_000 if scale.quick else 1_000_000
    with Program("bench.load.processing", url="", feed="", directory="") as program:
        took = in_turn(
            {"local": lambda: float(program(what="local", events=events, streams=STREAMS)["seconds"])},
            1 if scale.quick else 5,
        )
    speed = events / took.median("local")
    yield Row("of 20 000 streams", rate(speed), "", round(speed), Target(">=", 200_000, "events/s"))


@figure("processing-memory", "processing")
def processing_memory(place: Place, scale: Scale) -> Iterable[Row]:  # noqa: ARG001 - It needs none.
    """Memory of a processor at ten million events, beside one million."""
    sizes = (100_000, 10_000) if scale.quick else (10_000_000, 1_000_000)
    for what, told in (
        ("memory", "the largest it became, of 20 000 streams"),
        ("memory held", "the same where one stream holds it back, and 100 000 events are read ahead"),
    ):
        used = []
        for events in sizes:
            with Program("bench.load.processing", url="", feed="", directory="") as program:
                used.append(float(program(what=what, events=events, streams=STREAMS)["megabytes"]))
        yield Row(told, f"{used[0]:.0f} MB", f"{used[1]:.0f} MB", used[0] / used[1], Target("<=", 1.2))


@figure("processing-latency", "processing")
def processing_latency(place: Place, scale: Scale) -> Iterable[Row]:
    """Publish to handled by the local runner, at 500 events/s, SQLite."""
    url = place.sqlite()
    make_feed(url)
    with place.hub(url) as hub, Program("bench.load.processing", url=hub.url, feed=FEED, directory="") as program:
        taken = program(what="latency", events=100 if scale.quick else 5_000, per_second=500)["milliseconds"]
    middle, slow = median(taken), quantiles(taken, n=100)[98]
    what = "from sending to the handler's call"
    yield Row(f"{what}: median", f"{middle:.1f} ms", "", middle, Target("<", 15, "ms"))
    yield Row(f"{what}: 99th percentile", f"{slow:.1f} ms", "", slow)


@figure("projection", "processing")
def projection(place: Place, scale: Scale) -> Iterable[Row]:
    """Flights of a feed into delays by carrier and month, SQLite."""
    flights = _flights(scale)
    beside = min(flights.count, 2_000 if scale.quick else 20_000)
    with place.hub(place.sqlite()) as hub:
        _publish(hub.url, flights)
        given = {"url": hub.url, "feed": DEPARTURES, "directory": str(place.directory)}
        with Program("bench.load.processing", **given) as program:

            def one_by_one() -> float:
                told = program(what="one by one", events=beside)
                return float(told["events"]) / float(told["seconds"])

            sides = {
                "projection": lambda: (
                    flights.count / float(program(what="projection", events=flights.count)["seconds"])
                ),
                "one by one": one_by_one,
            }
            rounds = in_turn(sides, 1 if scale.quick else 3)
    what = f"all {flights.count} beside reading them with the client and committing each by itself"
    ours, theirs = rate(rounds.median("projection")), rate(rounds.median("one by one"))
    yield Row(what, ours, theirs, rounds.ratio("projection", "one by one"), Target(">=", 10))


@figure("processing-spark", "processing")
def processing_spark(place: Place, scale: Scale) -> Iterable[Row]:
    """Processor on Spark with a handler that does nothing, flights by aircraft, SQLite, from the third run on."""
    flights = _flights(scale)
    with place.hub(place.sqlite()) as hub:
        _publish(hub.url, flights)
        with Program("bench.load.spark_processing", url=hub.url, feed=DEPARTURES) as program:
            sides = {
                what: (lambda what=what: flights.count / float(program(what=what)["seconds"]))
                for what in ("processor", "shuffle")
            }
            rounds = in_turn(sides, 1 if scale.quick else 5, warm_up=2)
    what = "beside `repartition(key)` and a `mapInArrow` that does nothing"
    ours, theirs = rate(rounds.median("processor")), rate(rounds.median("shuffle"))
    yield Row(what, ours, theirs, rounds.ratio("processor", "shuffle"), Target(">=", 0.5))


def _flights(scale: Scale) -> Series:
    [flights] = [each for each in load(5_000 if scale.quick else None) if each.event_type == DEPARTURES]
    return flights


def _publish(url: str, flights: Series) -> None:
    with Client(url) as client:
        client.create_event_type(DEPARTURES, more=flights.definition)
        client.publish(DEPARTURES, flights.events())
