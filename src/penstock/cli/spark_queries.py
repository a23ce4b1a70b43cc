"""Runs Spark for as long as a command needs it: its session, its own words in a file, and a query in the foreground."""

import logging
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from penstock.cli.failures import CommandFailure, unwind_on_sigterm
from penstock.cli.hub import find_credential
from penstock.cli.output import age, number, print_json_line, progress, say, tell
from penstock.client import Client, TokenFile
from penstock.errors import PenstockError
from penstock.spark.failed_tasks import find_task_error
from penstock.spark.laptop import REMOTE
from penstock.spark.options import credential_of, parse_options
from penstock.spark.pipelines import Report, watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STOP_SECONDS_MAX: Final = 15.0
REMOTE_PORT: Final = 15002
"""Where servers of Spark Connect listen unless told otherwise."""
CONNECT_SECONDS_MAX: Final = 10.0
TASKS_INTERVAL: Final = 0.2
WARNINGS_INTERVAL: Final = 0.5

Show = Callable[[int, int], None]
"""Takes how many tasks are done, and how many there are."""


def check_source(source: Mapping[str, str]) -> None:
    """Check the options of the source now, since the source itself does so only when Spark has started.

    Raises:
        BadParameter: an option is invalid.
        EventTypeNotFound: the hub has no event type of a name.
        Unreachable: no hub answers.
    """
    chosen = parse_options(source)
    check_event_types(chosen.url, chosen.event_types, source)


def check_event_types(url: str, event_types: Sequence[str], options: Mapping[str, str]) -> None:
    """Check that the hub at *url* has all *event_types*; send it the token in *options*, those of the query.

    Raises:
        EventTypeNotFound: the hub lacks one of them.
        Unreachable: no hub answers.
    """
    names = {name.lower(): name for name in ("token", "tokenFile")}
    credential = credential_of({names[name.lower()]: value for name, value in options.items() if name.lower() in names})
    auth = TokenFile(credential.file) if credential.file is not None else credential.token
    with Client(url, auth=auth, retry_timeout=0) as client:
        for event_type in event_types:
            client.event_type(event_type)


@contextmanager
def run_spark(
    what: str,
    *,
    master: str,
    config: Mapping[str, str],
    log: Path | None,
    defaults: Mapping[str, str] | None = None,
    advice: str | None = None,
) -> Iterator["SparkSession"]:
    """Open a session for a pipeline; its failures are raised as CommandFailure.

    Args:
        what: The pipeline's name.
        master: Where Spark runs, or the address of a server of Spark Connect.
        config: The user's settings of Spark.
        log: The file for Spark's output; None for a new one, which stays only if Spark fails.
        defaults: Settings that the user's win over; a server has its own.
        advice: The advice if Spark fails.

    Raises:
        CommandFailure: Spark fails; the message has the reason.
    """
    unwind_on_sigterm()
    name = f"penstock {what}"
    if master.startswith(REMOTE):
        with remote_spark(master, name, config) as spark, _explain_failures(advice):
            yield spark
        return
    settings = {**(defaults or {}), **config}
    with (
        _keep_log(log) as file,
        local_spark(file, name, master=master, config=settings) as spark,
        _explain_failures(advice, f"Spark's own words are in {file}."),
    ):
        yield spark


@contextmanager
def _explain_failures(*advice: str | None) -> Iterator[None]:
    """Turn errors of Spark in the block into CommandFailure, in our words and with *advice*."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise CommandFailure(_find_reason(str(error)), "\n".join(filter(None, advice))) from error
    except CommandFailure as failure:
        raise CommandFailure(failure.detail, "\n".join(filter(None, (failure.hint, *advice)))) from failure.__cause__


def find_kafka_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Spark that bring its connector for Kafka, unless *config* brings jars itself."""
    from penstock.spark.pipelines.kafka import CONNECTOR

    if any(name.startswith("spark.jars") for name in config):
        return {}
    return {"spark.jars.packages": CONNECTOR}


def _find_reason(said: str) -> str:
    r"""Return the reason in a message of Spark's: the last error of ours, else of Python's, else the title.

    >>> _find_reason("[STREAM_FAILED] x: Traceback:\n  File\npenstock.errors.log.EventsLost: 7 are gone\n\tat java")
    '7 are gone'
    >>> _find_reason("[STREAM_FAILED] x: Traceback:\n  File\nOSError: the disk is full\n\tat java")
    'OSError: the disk is full'
    """
    if ours := find_task_error(said):
        return ours.detail
    others = re.findall(r"^(?:\w+\.)*\w+(?:Error|Exception): .+", said, re.MULTILINE)
    return str(others[-1]) if others else said.splitlines()[0]


@contextmanager
def local_spark(
    log: Path, name: str, *, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """Open a session whose processes on this machine write to *log* and end with the block.

    Warnings of ours go to stderr, too.

    Args:
        log: The file.
        name: The name of the application in Spark.
        master: Where to run, in Spark's words; by default on this machine.
        config: Spark's settings, which win over ours.

    Raises:
        CommandFailure: Spark does not start; the message names the log.
    """
    from pyspark import SparkContext

    from penstock.spark import session

    with _report_warnings():
        with _hold_signals() as came, _redirect_stderr(log):
            try:
                spark = session(name, master=master, config={"spark.log.level": "WARN", **(config or {})})
            except PenstockError as error:
                raise CommandFailure(error.detail, f"Spark's own words are in {log}.") from error
        gateway: Any = SparkContext._gateway
        try:
            with _redirect_logging(log):  # Py4J logs Ctrl-C as an error, with a traceback.
                for each in came:
                    signal.raise_signal(each)
                yield spark
        finally:
            with _hold_signals():
                _stop_spark(spark, gateway)


@contextmanager
def remote_spark(server: str, name: str, config: Mapping[str, str]) -> Iterator["SparkSession"]:
    """Open a session of a Spark Connect server; it ends with the block, and so do its queries.

    Args:
        server: Its address, `sc://spark.example:15002`.
        name: The name of the application in Spark.
        config: Settings of the session.

    Raises:
        CommandFailure: no server answers there.
        ModuleNotFoundError: a library that a client of Spark Connect needs is missing; the message names it.
    """
    from penstock.spark import session
    from penstock.spark.laptop import hide_token

    parts = urlsplit(server)
    try:  # Spark's client would try for many minutes.
        socket.create_connection((parts.hostname or "", parts.port or REMOTE_PORT), CONNECT_SECONDS_MAX).close()
    except (OSError, ValueError) as error:  # A port may be none.
        raise CommandFailure(f"no server of Spark Connect answers at {hide_token(server)}: {error}") from error
    spark = session(name, master=server, config=config)
    try:
        yield spark
    finally:
        with _hold_signals(), suppress(Exception):
            spark.stop()


def _stop_spark(spark: "SparkSession", gateway: Any) -> None:
    from pyspark import SparkContext

    # What was interrupted in the middle of a call may refuse the next one, and warn of it.
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        spark.stop()
    # Spark keeps its Java for the next session, until some time after this process has ended.
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


@contextmanager
def _hold_signals() -> Iterator[list[int]]:
    """Hold back Ctrl-C and SIGTERM while the block runs, and lend the list of those that came.

    A Java that is half started, or half ended, would be out of our hands.
    """
    came: list[int] = []
    kept = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in kept:
        signal.signal(each, lambda given, _: came.append(given))
    try:
        yield came
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


@contextmanager
def _redirect_stderr(file: Path) -> Iterator[None]:
    """Have processes that are started in the block write their stderr to a new *file*, as long as they live."""
    kept = os.dup(2)
    file.write_bytes(b"")
    try:
        with file.open("ab") as target:  # At its end, whoever has written there before.
            os.dup2(target.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _redirect_logging(file: Path) -> Iterator[None]:
    """Append the log records of this process to *file* while the block runs."""
    handler = logging.FileHandler(file, encoding="utf-8")
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextmanager
def _keep_log(log: Path | None) -> Iterator[Path]:
    """Lend *log*; if it is None, a new file, which is deleted unless the block fails."""
    if log is not None:
        yield log
        return
    descriptor, name = tempfile.mkstemp(prefix="penstock-spark-", suffix=".log")
    os.close(descriptor)
    file = Path(name)
    try:
        yield file
    except Exception:
        raise
    except BaseException:  # Somebody has ended it: nothing is wrong.
        file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)


@contextmanager
def _report_warnings() -> Iterator[None]:
    """Print warnings of ours as they come, from this process and from those that it starts in the block."""
    from penstock.spark.warnings_file import VARIABLE, warnings_into

    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder) / "warnings"
        path.touch()
        handler, logger = warnings_into(str(path)), logging.getLogger("penstock.spark")
        logger.addHandler(handler)
        os.environ[VARIABLE] = str(path)
        try:
            with path.open(encoding="utf-8") as file, _tell_lines(file):
                yield
        finally:
            del os.environ[VARIABLE]
            logger.removeHandler(handler)
            handler.close()


@contextmanager
def _tell_lines(file: IO[str]) -> Iterator[None]:
    """Print each line that is written to *file* while the block runs, as a warning."""
    over = threading.Event()

    def tell_on() -> None:
        is_last = False
        while not is_last:
            is_last = over.wait(WARNINGS_INTERVAL)
            for line in file:
                tell(f"warning: {line.rstrip()}", style="yellow")

    telling = threading.Thread(target=tell_on, daemon=True)
    telling.start()
    try:
        yield
    finally:
        over.set()
        telling.join()


def follow_query(
    query: "StreamingQuery", lag: Callable[[], float | None] | None, *, what: str, did: str, ends: bool, as_json: bool
) -> None:
    """Wait for a query's end, show its progress meanwhile, and print how many events it has read.

    Ctrl-C and SIGTERM end it when its micro-batch is done. For programs each report is a line of JSON.

    Args:
        query: The query.
        lag: Returns the age of the oldest event that the query has not read, in seconds, or None if it is not known.
            Without it, the query's own reports are used.
        what: The work in a word, such as `forwarding`.
        did: The result's beginning, before the number of events.
        ends: True if the query ends by itself.
        as_json: True to print reports for programs.

    Raises:
        CommandFailure: the query fails; the message has the reason.
    """
    with _stop_on_signal() as stop:
        report = attend_query(query, lag, what=what, ends=ends, as_json=as_json, stop=stop)
    if not as_json:
        counts = f"{number(report.events)} events in {age(report.seconds)}, {number(round(report.rate))} a second"
        say(f"{did} {counts}; gap {_or_dash(report.gap, number)}")


def attend_query(
    query: "StreamingQuery",
    lag: Callable[[], float | None] | None,
    *,
    what: str,
    ends: bool = True,
    as_json: bool = False,
    stop: threading.Event | None = None,
) -> Report:
    """Wait for a query's end, show its progress meanwhile, and return its last report.

    The query ends when *stop* is set. Signals are the caller's; the other arguments are those of `follow_query`.

    Raises:
        CommandFailure: the query fails; says why.
    """
    from pyspark.errors import StreamingQueryException

    with progress(known_end=ends) as display:
        task = display.add_task(what, total=None, events=0)

        def show_report(report: Report) -> None:
            if as_json:
                print_json_line({**report._asdict(), "rate": round(report.rate, 1)})
                return
            total = report.events + (report.gap or 0)
            text = f"{what}  gap {_or_dash(report.gap, number)}  lag {_or_dash(report.lag_seconds, age)}"
            display.update(task, description=text, completed=report.events, total=total, events=report.events)
            if not display.console.is_terminal:
                tell(f"{text}  {number(report.events)} events  {number(round(report.rate))}/s")

        try:
            return watch(query, show_report, stop=stop, lag=lag)
        except StreamingQueryException as error:
            raise CommandFailure(
                _find_reason(str(error)), "Mend that and start it again: it goes on where it was."
            ) from error


@contextmanager
def watch_lag(group: str, url: str, auth: Any = None) -> Iterator[Callable[[], float | None]]:
    """Lend a function that returns the lag of a consumer group of the hub at *url*, in seconds.

    The function returns None while the group or the hub is not there. Requests carry *auth*, by default the credential
    of the command.
    """
    with Client(url, auth=auth or find_credential(), retry_timeout=0) as client:

        def lag() -> float | None:
            try:
                return client.consumer_group(group).lag_seconds
            except PenstockError:  # It is not there yet, or the hub is away: the query waits for that, and so do we.
                return None

        yield lag


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """Lend an event that the first Ctrl-C or SIGTERM sets; a second signal interrupts."""
    stop = threading.Event()

    def request_stop(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        tell("ending when the micro-batch is done; once more to end at once")

    kept = {each: signal.signal(each, request_stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


def _or_dash(value: Any, text: Callable[[Any], str]) -> str:
    return "-" if value is None else text(value)


@contextmanager
def show_tasks(spark: "SparkSession", what: str) -> Iterator[None]:
    """Show how many tasks are done of the job that the block runs."""
    with progress() as display:
        if not display.console.is_terminal:
            tell(f"{what}.")
        task = display.add_task(what, total=None, events=0)

        def show(done: int, all_: int) -> None:
            text = f"{what}: task {number(done)} of {number(all_)}"
            display.update(task, completed=done, total=all_, description=text)

        with _count_tasks(spark, show):
            yield


def _count_tasks(spark: "SparkSession", show: Show) -> AbstractContextManager[None]:
    from pyspark.sql.utils import is_remote

    return _count_by_progress(spark, show) if is_remote() else _count_by_status(spark, show)


@contextmanager
def _count_by_progress(spark: Any, show: Show) -> Iterator[None]:
    def count_tasks(stages: Any, **_: object) -> None:
        if known := list(stages or ()):
            show(sum(each.num_completed_tasks for each in known), sum(each.num_tasks for each in known))

    spark.registerProgressHandler(count_tasks)
    try:
        yield
    finally:
        spark.removeProgressHandler(count_tasks)


@contextmanager
def _count_by_status(spark: "SparkSession", show: Show) -> Iterator[None]:
    over, tracker = threading.Event(), spark.sparkContext.statusTracker()

    def look() -> None:
        while not over.wait(TASKS_INTERVAL):
            stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
            if known := [each for each in stages if each is not None]:
                show(sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known))

    watching = threading.Thread(target=look, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
