"""Read models that are folds of events, stored in tables with their positions.

projection  the fold of events into rows: the source of its entries, its handler, its name and version
columns     a class's fields as columns
table       the rows, in SQLite or PostgreSQL
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import export_lazily

if TYPE_CHECKING:
    from penstock.processing.projections.projection import Projection
    from penstock.processing.projections.table import CurrentRow, current_row
else:
    __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "processing.projections.projection": ["Projection"],
            "processing.projections.table": ["CurrentRow", "current_row"],
        },
    )

__all__ = [
    "CurrentRow",
    "Projection",
    "current_row",
]
