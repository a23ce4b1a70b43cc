"""Events as typed columns of Arrow: which columns a JSON Schema has, and the decoding of JSON into them."""

from typing import Final

TYPED: Final = "typed"
"""The column that has the members of `data`, in files of a cold tier: a struct."""
RESCUED: Final = "rescued_data"
"""The column that has what of `data` is not in its typed columns, as JSON; null: nothing."""
