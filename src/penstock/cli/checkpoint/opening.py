"""Opens what keeps the positions of processors: a database of the user's, or a hub."""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cli.checkpoint.keeper import TABLE, Keeper
from penstock.cli.options import URL


@contextmanager
def keeper(database: str | None, table: str = TABLE, url: str = URL) -> Iterator[Keeper]:
    """Lend what keeps positions: the *database* if there is one, else the hub at *url*.

    Raises:
        Failure: the database cannot be used; says why.
    """
    if database is None:
        from penstock.cli.checkpoint.hub_keeper import HubKeeper
        from penstock.client import Client

        with Client(url, patience=0) as client:  # Whoever sits before it rather tries again than waits.
            yield HubKeeper(client)
        return
    from penstock.cli.checkpoint.database_keeper import DatabaseKeeper
    from penstock.cli.database import explained, is_new
    from penstock.cli.database_url import file_of
    from penstock.cli.failures import Failure

    if is_new(database):
        hint = "Correct --database: it names the one in which the processor keeps its positions."
        raise Failure(f"there is no file {file_of(database)}", hint)
    with explained(database):
        yield DatabaseKeeper(database, table)
