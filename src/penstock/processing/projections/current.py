"""Reads a row of a projection together with how far it is folded, whichever version is in use."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.errors import ProjectionNotFound
from penstock.processing.projections.table import Table


class CurrentRow(NamedTuple):
    """A row of the version of a projection that its view shows, and how far it is folded."""

    columns: Mapping[str, Any] | None
    """The columns of the key and of the state, as the driver returns them. None: there is no such row, or its fold has
    deleted it."""
    positions: Mapping[str, int]
    """By tranche of a feed, `order.placed/3`, the offset of the next event to be folded; by stream, where a source
    numbers each stream by itself. Empty: no event was folded into it."""


def current_row(connection: Any, projection: str, /, **key: Any) -> CurrentRow:
    """Return a row of a projection and how far it is folded, from the table that its view shows now.

    The table of a version that is not in use any more stands still once its processor has ended. So a handler that
    waits until a row is as far as its event has to read it here, and not in the table of one version. A row that is
    deleted has positions, too, which the view does not show.

    Args:
        connection: Of `sqlite3` or `psycopg`, to the projection's database.
        projection: The name of the projection, as its view is called.
        key: The columns of its key: `key="Ada"`, or `customer="Ada", size="large"`.

    Raises:
        ProjectionNotFound: there is no such view.
        BadParameter: it is another kind of view; or the columns are not those of the key.
    """
    shown = Table(projection, projection, (), (), None).shown(connection)
    if shown is None:
        raise ProjectionNotFound(projection=projection, path="the database")
    return CurrentRow(*Table(shown, projection, (), (), None).current(connection, key))
