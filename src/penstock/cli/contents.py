"""The commands that `penstock --help` lists. Each is loaded once it is wanted, so that the list is quick."""

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer

from penstock.cli.helping import examples, prose
from penstock.cli.hub import add_token_file

HUB: Final = "Hub"
EVENTS: Final = "Events"
MORE: Final = "More"


class CommandEntry(NamedTuple):
    """A command as the list has it."""

    part: str
    """The heading it stands under."""
    place: str
    """The module, and the function or the group of commands in it."""
    summary: str
    """How its help begins."""
    usage: tuple[str, ...] = ()
    """Examples, of a function; a group has its own."""


CONTENTS: Final = {
    "serve": CommandEntry(
        HUB,
        "penstock.cli.serve:serve",
        "Serve the hub over HTTP until told to stop.",
        (
            "penstock serve",
            "penstock serve --database sqlite:////var/lib/shop.db --port 9000",
            "PENSTOCK_DATABASE=postgresql://shop@db/shop penstock serve",
        ),
    ),
    "migrate": CommandEntry(
        HUB,
        "penstock.cli.migrate:migrate",
        "Bring the tables up to date, and tell what was done.",
        ("penstock migrate --database sqlite:///shop.db", "penstock migrate --print-sql | psql shop"),
    ),
    "backup": CommandEntry(
        HUB,
        "penstock.cli.backup:backup",
        "Copy a SQLite database into FILE, while hubs and services read and write it.",
        ("penstock backup --database sqlite:///shop.db /var/backups/shop-$(date +%F).db",),
    ),
    "restored": CommandEntry(
        HUB,
        "penstock.cli.restored:restored",
        "Say, after asking, that a backup was put back, so that no cursor into what the database has lost is taken.",
        ("penstock restored --database sqlite:///shop.db", "penstock restored --yes"),
    ),
    "doctor": CommandEntry(
        HUB,
        "penstock.cli.doctor:doctor",
        "Look at what can be wrong: the database, its tables, long transactions, the outbox, files, access, Spark.",
        ("penstock doctor --database sqlite:///shop.db",),
    ),
    "token": CommandEntry(
        HUB,
        "penstock.cli.token:app",
        "Create, list, rotate and revoke the tokens by which callers identify themselves.",
    ),
    "access": CommandEntry(
        HUB,
        "penstock.cli.access:app",
        "List, add and remove the callers who administer, read or write everything.",
    ),
    "retention": CommandEntry(
        HUB,
        "penstock.cli.retention:app",
        "See how long events are kept; choose it for event types that do not say so.",
    ),
    "replicas": CommandEntry(
        HUB,
        "penstock.cli.replicas:app",
        "Choose the callers whose reads go to replicas of the database.",
    ),
    "cold": CommandEntry(
        HUB,
        "penstock.cli.cold:app",
        "List and verify the files of the cold tier; move their events back, or make feeds of them.",
    ),
    "rejected": CommandEntry(
        HUB,
        "penstock.cli.rejected:app",
        "Look at outbox rows that could not be published; put them back, or not.",
    ),
    "monitoring": CommandEntry(
        HUB,
        "penstock.cli.monitoring:app",
        "Print rules for Prometheus and a dashboard for Grafana, for hubs and processors.",
    ),
    "publish": CommandEntry(
        EVENTS,
        "penstock.cli.publish:publish",
        "Publish events, one JSON object a line, in their order.",
        (
            "penstock publish order.placed orders.ndjson",
            "jq -c '.[]' orders.json | penstock publish order.placed --key-field customer.id",
            "penstock tail order.placed --from earliest --no-follow --headers -o json | penstock publish order.copy",
        ),
    ),
    "tail": CommandEntry(
        EVENTS,
        "penstock.cli.tail:tail",
        "Show the events of a feed, and go on as they come, until Ctrl-C.",
        (
            "penstock tail order.placed -n 10",
            "penstock tail order.placed --key customer-7 --headers",
            "penstock tail order.placed --from earliest --count 1000 --output json > some.ndjson",
        ),
    ),
    "erase": CommandEntry(
        EVENTS,
        "penstock.cli.erase:erase",
        "Erase the events of a key for good, such as those of a person, and report what was erased.",
        ("penstock erase customer.changed --key customer-00417",),
    ),
    "event-type": CommandEntry(
        EVENTS,
        "penstock.cli.event_type:app",
        "Create event types, show and delete them; check and apply their files.",
    ),
    "groups": CommandEntry(
        EVENTS,
        "penstock.cli.groups.command:app",
        "See how far all consumers are; move them, help them over events that cannot be processed.",
    ),
    "subscription": CommandEntry(
        EVENTS,
        "penstock.cli.subscription:app",
        "Create subscriptions, see who has which partition of them, watch and delete them.",
    ),
    "spark": CommandEntry(
        EVENTS,
        "penstock.cli.spark:app",
        "Move events with Spark: feeds into a lake, into files and elsewhere, and from elsewhere into feeds.",
    ),
    "new": CommandEntry(
        MORE,
        "penstock.cli.new:new",
        "Make a small tested project that processes events: a handler, what runs it, and its tests.",
        ("penstock new projector order-totals", "penstock new forwarder orders-to-crm"),
    ),
    "demo": CommandEntry(
        MORE,
        "penstock.cli.demo:demo",
        "Publish a year of real flights, stream them into a lake, publish their delays, and look at them.",
        ("penstock demo --directory build/demo",),
    ),
    "version": CommandEntry(
        MORE,
        "penstock.cli.version:version",
        "Tell the versions of Penstock and of what it runs on.",
        ("penstock version --output json",),
    ),
}
"""In the order of the list."""


@functools.cache
def load_command(name: str) -> Any:
    """Return the command or the group of commands of that *name*, whole."""
    entry = CONTENTS[name]
    module, _, attribute = entry.place.partition(":")
    found = getattr(import_module(module), attribute)
    whole: Any = typer.main.get_group(found) if isinstance(found, typer.Typer) else _whole(found, entry.usage)
    whole.name = name
    add_token_file(whole)
    return whole


def _whole(function: Callable[..., None], usage: tuple[str, ...]) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(help=prose(function), epilog=examples(*usage))(function)
    return typer.main.get_command(alone)
