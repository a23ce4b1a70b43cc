"""The store in a PostgreSQL database; each module implements the port of the same name in `penstock.storage`."""

from typing import Final

from penstock.storage.statements import Dialect, to_pyformat

POSTGRES: Final = Dialect(__name__, translate=to_pyformat)
