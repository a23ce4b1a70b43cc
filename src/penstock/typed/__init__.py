"""Events as typed columns of Arrow: the columns of a JSON Schema, and the decoding of JSON into them."""

from typing import Final

TYPED: Final = "typed"
"""The column that has the members of `data`, in files of a cold tier: a struct."""
RESCUED: Final = "rescued_data"
"""The column with the parts of `data` that do not fit its typed columns, as JSON; null: all fit."""
