"""The store in one SQLite file; each module implements the port of the same name in `penstock.storage`."""

from typing import Final

from penstock.storage.statements import Dialect

SQLITE: Final = Dialect(__name__)
