"""`penstock spark ingest`: feeds into a lake."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from penstock.cli.options import URL, OutputOption, UrlOption
from penstock.cli.spark.settings import (
    MASTER,
    ConfOption,
    EventTypesArgument,
    FollowOption,
    GroupOption,
    LogOption,
    MasterOption,
    PayloadOption,
    SourceOption,
    StartOption,
    ToOption,
    absolute,
    pairs,
)


def ingest(
    event_types: EventTypesArgument,
    *,
    to: ToOption,
    format: Annotated[
        Literal["parquet", "delta"], typer.Option(help="delta needs a session that has it: see --conf.")
    ] = "parquet",
    payload: PayloadOption = "json",
    start: StartOption = "earliest",
    follow: FollowOption = False,
    freshness: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="With --follow, how long few events may wait to be written: 30s, 15m, 2h."
        ),
    ] = "15m",
    consumer_group: GroupOption = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where it keeps how far it is; by default in the lake.")
    ] = None,
    option: SourceOption = None,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    log: LogOption = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Write feeds into a lake of files, each event once, by event type and day.

    It goes on where it was, whatever has ended it. Without --follow it ends when it has what there is now. With it,
    events wait until there are 100 000, or for --freshness, so that files are not small.
    """
    from penstock.cli.hub import find_spark_options
    from penstock.cli.spark.following import follow as following
    from penstock.cli.spark.following import lag_of
    from penstock.cli.spark.running import check_source, running
    from penstock.spark import pipelines
    from penstock.spark.options import seconds_of

    path, kept = absolute(to), absolute(checkpoint) if checkpoint else None
    group = consumer_group or f"lake:{Path(path).name}"
    source = {
        "url": url, "eventType": ",".join(event_types), "payload": payload, "startingOffsets": start,
        "maxTriggerDelay": freshness, "consumerGroup": group, **find_spark_options(), **pairs(option, "--option"),
    }  # fmt: skip
    seconds_of("--freshness", freshness)
    check_source(source)
    trigger: dict[str, Any] = {"processingTime": "1 second"} if follow else {"availableNow": True}
    with running("ingest", master=master, conf=conf, log=log) as spark, lag_of(group, url) as lag:
        query = pipelines.ingest(spark, path, format=format, checkpoint=kept, trigger=trigger, **source)
        following(query, lag, what="ingesting", did=f"{to} has", ends=not follow, as_json=output == "json")
