"""`penstock spark`: pipelines that are ready to run, on this machine or on a cluster; each in a file of its own."""

import typer

from penstock.cli.options import examples, prose
from penstock.cli.spark import export, ingest

app = typer.Typer(
    no_args_is_help=True,
    help="Move events with Spark: feeds into a lake, and parts of them into files.",
    epilog=examples(
        "penstock spark ingest order.placed --to lake",
        "penstock spark ingest order.placed order.paid --to s3a://lake/orders --payload typed --follow",
        "penstock spark export order.placed --to orders --from 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z",
    ),
)

app.command(
    help=prose(ingest.ingest),
    epilog=examples("penstock spark ingest order.placed --to lake", "penstock spark ingest a b --to lake --follow"),
)(ingest.ingest)
app.command(
    help=prose(export.export),
    epilog=examples("penstock spark export order.placed --to orders --format csv --until 2026-12-01T00:00:00Z"),
)(export.export)
