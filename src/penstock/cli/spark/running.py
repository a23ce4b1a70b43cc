"""What a pipeline runs in: a session of Spark, whose failures are told in our words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.failures import CommandFailure, unwind_on_sigterm
from penstock.cli.spark.chatter import kept_if_it_fails
from penstock.cli.spark.process import local_spark, remote_spark
from penstock.cli.spark.settings import pairs
from penstock.client import Client, TokenFile
from penstock.spark.failed_tasks import told_of
from penstock.spark.laptop import REMOTE
from penstock.spark.options import credential_of, parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_source(source: Mapping[str, str]) -> None:
    """Refuse at once what the source would refuse when Spark has started, some seconds later.

    Raises:
        BadParameter: an option is wrong.
        EventTypeNotFound: there is none of a name.
        Unreachable: there is no hub.
    """
    chosen = parse_options(source)
    check_event_types(chosen.url, chosen.event_types, source)


def check_event_types(url: str, event_types: Sequence[str], options: Mapping[str, str]) -> None:
    """Check that the hub at *url* has all *event_types*. It is sent the token of *options*, those of the query.

    Raises:
        EventTypeNotFound: it has not.
        Unreachable: there is no hub.
    """
    names = {name.lower(): name for name in ("token", "tokenFile")}
    credential = credential_of({names[name.lower()]: value for name, value in options.items() if name.lower() in names})
    auth = TokenFile(credential.file) if credential.file is not None else credential.token
    with Client(url, auth=auth, retry_timeout=0) as client:
        for event_type in event_types:
            client.event_type(event_type)


@contextmanager
def running(
    what: str,
    *,
    master: str,
    conf: Sequence[str] | None,
    log: Path | None,
    defaults: Mapping[str, str] | None = None,
    advice: str | None = None,
) -> Iterator["SparkSession"]:
    """Lend a session for a pipeline.

    Args:
        what: Its name.
        master: Where Spark runs, or the address of a server of Spark Connect.
        conf: The user's settings of Spark, NAME=VALUE.
        log: Where Spark's own words go; None: to a file that stays only if it fails.
        defaults: Settings that the user's win over; a server has its own.
        advice: What to do if Spark fails.

    Raises:
        CommandFailure: Spark has failed; says why.
    """
    unwind_on_sigterm()
    name, config = f"penstock {what}", pairs(conf, "--conf")
    if master.startswith(REMOTE):
        with remote_spark(master, name, config) as spark, _failing(advice):
            yield spark
        return
    settings = {**(defaults or {}), **config}
    with (
        kept_if_it_fails(log) as file,
        local_spark(file, name, master=master, config=settings) as spark,
        _failing(advice, f"Spark's own words are in {file}."),
    ):
        yield spark


@contextmanager
def _failing(*advice: str | None) -> Iterator[None]:
    """Have what is wrong with Spark told in our words, with *advice*."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise CommandFailure(reason(str(error)), "\n".join(filter(None, advice))) from error
    except CommandFailure as failure:
        raise CommandFailure(failure.detail, "\n".join(filter(None, (failure.hint, *advice)))) from failure.__cause__


def kafka_settings(conf: Sequence[str] | None) -> dict[str, str]:
    """Return the settings of Spark that bring its connector for Kafka, unless the user's *conf* brings jars itself."""
    from penstock.spark.pipelines.kafka import CONNECTOR

    if any(name.startswith("spark.jars") for name in pairs(conf, "--conf")):
        return {}
    return {"spark.jars.packages": CONNECTOR}


def reason(said: str) -> str:
    r"""Return what is wrong out of what Spark says of it: the last error of ours, else of Python's, else the title.

    >>> reason("[STREAM_FAILED] x: Traceback:\n  File\npenstock.errors.log.EventsLost: 7 are gone\n\tat java")
    '7 are gone'
    >>> reason("[STREAM_FAILED] x: Traceback:\n  File\nOSError: the disk is full\n\tat java")
    'OSError: the disk is full'
    """
    if ours := told_of(said):
        return ours.detail
    others = re.findall(r"^(?:\w+\.)*\w+(?:Error|Exception): .+", said, re.MULTILINE)
    return str(others[-1]) if others else said.splitlines()[0]
