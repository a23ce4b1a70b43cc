"""Arguments and options of `penstock groups`, and functions that open the place of the positions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from penstock.cli.database_url import check_database
from penstock.cli.options import check_url

if TYPE_CHECKING:
    from penstock.cli.groups.own import OwnDatabase
    from penstock.client import Client

TABLE: Final = "penstock_checkpoints"
SUBSCRIPTION: Final = "subscription"
Answer = TypeVar("Answer")


def _check_url(url: str | None) -> str | None:
    return None if url is None else check_database(url)


NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The consumer group's name, as `list` shows it; a beginning of it does for a subscription."
    ),
]
# Not from PENSTOCK_DATABASE: that is the hub's database, and this one is the consumer's own.
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="A database of yours in which processors keep their positions; without it, the hub keeps them.",
        callback=_check_url,
    ),
]
TableOption = Annotated[
    str, typer.Option(metavar="NAME", help="With --database: the first of the tables there, if it is called otherwise.")
]
HubOption = Annotated[
    str,
    typer.Option(
        "--url",
        "--hub",
        envvar="PENSTOCK_URL",
        help="The hub's address. With --database: whose feeds are read.",
        callback=check_url,
    ),
]
ReasonOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; `penstock groups history` shows it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be moved.")]


def open_hub(url: str) -> "Client":
    """Return a client of the hub at *url* that does not retry: a person rather tries again than waits."""
    from penstock.cli.hub import open_client

    return open_client(url, retry_timeout=0)


@contextmanager
def open_own(database: str, table: str = TABLE, *, gaps_at: str | None = None) -> "Iterator[OwnDatabase]":
    """Open the positions in a *database* of the user's, for the duration of the block.

    Args:
        database: Its URL.
        table: The first of the tables.
        gaps_at: The address of the hub that computes gaps and lags; None: they are unknown.

    Raises:
        CommandFailure: the database cannot be used; the message has the reason.
    """
    from penstock.cli.database import explain_failures, is_new
    from penstock.cli.database_url import file_of
    from penstock.cli.failures import CommandFailure
    from penstock.cli.groups.own import OwnDatabase

    if is_new(database):
        hint = "Correct --database: it names the one in which the processor keeps its positions."
        raise CommandFailure(f"there is no file {file_of(database)}", hint)
    with explain_failures(database):
        if gaps_at is None:
            yield OwnDatabase(database, table)
            return
        from penstock.cli.groups.gaps import Gaps

        with open_hub(gaps_at) as client:
            yield OwnDatabase(database, table, Gaps(client, gaps_at))


def find_given_url(context: typer.Context, url: str) -> str | None:
    """Return *url* if the user has given it, or None if it is the default."""
    source = context.get_parameter_source("url")
    return None if source is None or source.name == "DEFAULT" else url


def ask_about_group(client: "Client", name: str, ask: "Callable[[str], Answer]") -> "tuple[str, Answer]":
    """Return what *ask* says of a group, and the whole name: a beginning does for a subscription, as it does elsewhere.

    Raises:
        GroupNotFound: there is none.
        CommandFailure: several subscriptions have ids that begin so; says which.
    """
    from penstock.cli.subscription import find_by_prefix
    from penstock.errors import NotFound

    try:
        return name, ask(name)
    except NotFound:  # All that a strict hub says.
        meant = find_by_prefix(client, name)
        if meant is None:
            raise
    return meant.id, ask(meant.id)
