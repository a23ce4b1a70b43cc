"""How fast Spark reads a feed."""

from collections.abc import Iterable
from pathlib import Path

from bench.events import FEED, event
from bench.figure import Row, Scale, Target, figure, rate
from bench.load.program import Program
from bench.logs import make_log
from bench.measure import Side, in_turn
from bench.place import Place

WARM_UP_ROUNDS = 2
FILES = 4


@figure("spark", "spark")
def spark(place: Place, scale: Scale) -> Iterable[Row]:
    """Spark batch read of the feed into noop, from the third run on, SQLite."""
    count = 40_000 if scale.quick else 1_000_000
    files = place.directory / "files"
    write_files(files, count)
    url = place.sqlite()
    make_log(url, count)
    with place.hub(url) as hub, Program("bench.load.spark", url=hub.url, feed=FEED, files=str(files)) as program:
        sides = {what: _rate_of(program, what, count) for what in ("feed", "text", "json")}
        rounds = in_turn(sides, 1 if scale.quick else 5, warm_up=WARM_UP_ROUNDS)
    for what, call, target in (
        ("text", "`spark.read.text` of files of the same rows", 0.2),
        ("json", "`spark.read.json` with a schema, of the same files", 0.5),
    ):
        ours, beside = rate(rounds.median("feed")), rate(rounds.median(what))
        yield Row(f"feed beside {call}", ours, beside, rounds.ratio("feed", what), Target(">=", target))


def write_files(directory: Path, count: int) -> None:
    """Write *count* events into a few files, an event a line."""
    directory.mkdir()
    for number in range(FILES):
        with (directory / f"{number}.ndjson").open("w", encoding="utf-8") as file:
            file.writelines(
                f"{event(each)}\n" for each in range(count * number // FILES, count * (number + 1) // FILES)
            )


def _rate_of(program: Program, what: str, count: int) -> Side:
    return lambda: count / float(program(what=what)["seconds"])
