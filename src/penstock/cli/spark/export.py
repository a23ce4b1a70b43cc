"""`penstock spark export`: a part of feeds into files."""

import time
from typing import Annotated, Literal

import typer

from penstock.cli.options import URL, OutputOption, UrlOption
from penstock.cli.spark.settings import (
    MASTER,
    ConfOption,
    EventTypesArgument,
    LogOption,
    MasterOption,
    PayloadOption,
    SourceOption,
    StartOption,
    ToOption,
    absolute,
    pairs,
)


def export(
    event_types: EventTypesArgument,
    *,
    to: ToOption,
    format: Annotated[Literal["parquet", "json", "csv", "orc"], typer.Option(help="Of the files.")] = "parquet",
    payload: PayloadOption = "json",
    start: StartOption = "earliest",
    until: Annotated[str, typer.Option(metavar="PLACE", help="latest, a time, or JSON of offsets.")] = "latest",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    option: SourceOption = None,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    log: LogOption = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Write what feeds have between two places into files, once."""
    from penstock.cli.hub import find_spark_options
    from penstock.cli.output import age, number, print_json, say
    from penstock.cli.spark.counting import counting_tasks
    from penstock.cli.spark.running import check_source, running
    from penstock.spark import pipelines

    source = {
        "url": url, "eventType": ",".join(event_types), "payload": payload, "startingOffsets": start,
        "endingOffsets": until, **find_spark_options(), **pairs(option, "--option"),
    }  # fmt: skip
    check_source(source)
    advice = "If something is there already, --overwrite replaces it."
    with running("export", master=master, conf=conf, log=log, advice=advice) as spark:
        began = time.monotonic()
        with counting_tasks(spark, f"exporting to {to}"):
            events = pipelines.export(spark, absolute(to), format=format, overwrite=overwrite, **source)
        seconds = time.monotonic() - began
    if output == "json":
        print_json({"events": events, "seconds": round(seconds, 3)})
    else:
        say(f"{to} has {number(events)} events, in {age(seconds)}")
