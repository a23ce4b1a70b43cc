"""Opens what keeps the positions of processors: a database of the user's, or a hub."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from penstock.cli.checkpoint.keeper import TABLE, Keeper
from penstock.cli.options import URL


@contextmanager
def keeper(database: str | None, table: str = TABLE, url: str = URL, *, gaps_at: str | None = None) -> Iterator[Keeper]:
    """Lend what keeps positions: the *database* if there is one, else the hub at *url*.

    Args:
        database: The URL of a database.
        table: The first of the tables there.
        url: The hub's address.
        gaps_at: With a database, the address of the hub that tells how far positions are behind; None: nobody does.

    Raises:
        CommandFailure: the database cannot be used; says why.
    """
    from penstock.cli.hub import open_client

    if database is None:
        from penstock.cli.checkpoint.hub_keeper import HubKeeper

        with open_client(url, retry_timeout=0) as client:  # Whoever sits before it rather tries again than waits.
            yield HubKeeper(client)
        return
    from penstock.cli.checkpoint.database_keeper import DatabaseKeeper
    from penstock.cli.database import explained, is_new
    from penstock.cli.database_url import file_of
    from penstock.cli.failures import CommandFailure

    if is_new(database):
        hint = "Correct --database: it names the one in which the processor keeps its positions."
        raise CommandFailure(f"there is no file {file_of(database)}", hint)
    with explained(database):
        if gaps_at is None:
            yield DatabaseKeeper(database, table)
            return
        from penstock.cli.checkpoint.gaps import Gaps

        with open_client(gaps_at, retry_timeout=0) as client:
            yield DatabaseKeeper(database, table, Gaps(client, gaps_at))


def given_url(context: typer.Context, url: str) -> str | None:
    """Return *url* if somebody has said it; None: it is the one by default."""
    source = context.get_parameter_source("url")
    return None if source is None or source.name == "DEFAULT" else url
