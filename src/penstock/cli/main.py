"""The command `penstock`: its table of contents.

Nothing slow is imported here or on top of the commands' modules: `--help` answers at once.
"""

from collections.abc import Callable
from typing import Annotated, Final

import typer

from penstock.cli import doctor, failures, groups, migrate, new, publish, rejected, restored, serve, tail, version
from penstock.cli.checkpoint import command as checkpoint
from penstock.cli.demo import command as demo
from penstock.cli.event_type import command as event_type
from penstock.cli.options import examples, prose
from penstock.cli.spark import command as spark
from penstock.cli.subscription import command as subscription
from penstock.cli.usage import Commands

HUB: Final = "Hub"
EVENTS: Final = "Events"
MORE: Final = "More"

app = typer.Typer(
    name="penstock",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("penstock serve", "penstock event-type create order.placed", "penstock tail order.placed"),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        version.version()
        raise typer.Exit


@app.callback()
def penstock(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Tell the version.")
    ] = False,
) -> None:
    """An event hub that lives in your own database, and a Spark data pipeline that drinks from it."""


def _add(command: Callable[..., None], panel: str, *usage: str) -> None:
    app.command(help=prose(command), rich_help_panel=panel, epilog=examples(*usage) if usage else None)(command)


_add(
    serve.serve,
    HUB,
    "penstock serve",
    "penstock serve --database sqlite:////var/lib/shop.db --port 9000",
    "PENSTOCK_DATABASE=postgresql://shop@db/shop penstock serve",
)
_add(migrate.migrate, HUB, "penstock migrate --database sqlite:///shop.db", "penstock migrate --print-sql | psql shop")
_add(restored.restored, HUB, "penstock restored --database sqlite:///shop.db")
_add(doctor.doctor, HUB, "penstock doctor --database sqlite:///shop.db")
app.add_typer(rejected.app, name="rejected", rich_help_panel=HUB)
app.add_typer(event_type.app, name="event-type", rich_help_panel=EVENTS)
app.add_typer(subscription.app, name="subscription", rich_help_panel=EVENTS)
app.add_typer(groups.app, name="groups", rich_help_panel=EVENTS)
app.add_typer(checkpoint.app, name="checkpoint", rich_help_panel=EVENTS)
_add(
    publish.publish,
    EVENTS,
    "penstock publish order.placed orders.ndjson",
    "jq -c '.[]' orders.json | penstock publish order.placed --key-field customer.id",
    "penstock tail order.placed --from first --no-follow --headers -o json | penstock publish order.copy",
)
_add(
    tail.tail,
    EVENTS,
    "penstock tail order.placed -n 10",
    "penstock tail order.placed --key customer-7 --headers",
    "penstock tail order.placed --from first --count 1000 --output json > some.ndjson",
)
app.add_typer(spark.app, name="spark", rich_help_panel=EVENTS)
_add(new.new, MORE, "penstock new projector order-totals", "penstock new forwarder orders-to-crm")
_add(demo.demo, MORE, "penstock demo --directory build/demo")
_add(version.version, MORE)


def main() -> None:
    """Run the command that the process's arguments name."""
    failures.run(app)


if __name__ == "__main__":
    main()
