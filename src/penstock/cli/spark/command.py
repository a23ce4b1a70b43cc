"""`penstock spark`: pipelines that are ready to run, on this machine or on a cluster; each in a file of its own."""

from penstock.cli.helping import examples, group, prose
from penstock.cli.spark import export, forward, import_, ingest

app = group(
    "Move events with Spark: feeds into a lake, into files and elsewhere, and from elsewhere into feeds.",
    "penstock spark ingest order.placed --to lake",
    "penstock spark ingest order.placed order.paid --to s3a://lake/orders --payload typed --follow",
    "penstock spark export order.placed --to orders --from 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z",
    "penstock spark forward order.placed --kafka localhost:9092 --checkpoint orders-to-kafka --follow",
    "penstock spark import order.placed --kafka localhost:9092 --topic orders --checkpoint orders-from-kafka",
    no_args_is_help=True,
)

app.command(
    help=prose(ingest.ingest),
    epilog=examples("penstock spark ingest order.placed --to lake", "penstock spark ingest a b --to lake --follow"),
)(ingest.ingest)
app.command(
    help=prose(export.export),
    epilog=examples("penstock spark export order.placed --to orders --format csv --until 2026-12-01T00:00:00Z"),
)(export.export)
app.command(
    help=prose(forward.forward),
    epilog=examples(
        "penstock spark forward order.placed --kafka localhost:9092 --as orders --checkpoint orders-to-kafka",
        "penstock spark forward order.placed --hub https://other.example --checkpoint orders-there --follow",
    ),
)(forward.forward)
app.command(
    "import",
    help=prose(import_.import_),
    epilog=examples(
        "penstock spark import order.placed --files orders --checkpoint orders-from-files",
        "penstock spark import order.placed --kafka localhost:9092 --topic orders --checkpoint orders-from-kafka",
    ),
)(import_.import_)
