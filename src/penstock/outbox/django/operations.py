"""The one migration operation of the outbox app."""

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from penstock.outbox.dialects import creation


class CreateOutbox(Operation):
    """Creates the outbox where it is missing; leaves it when migrated back, because events may be waiting in it."""

    reversible = True
    reduces_to_sql = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change no model: the outbox has none."""

    def database_forwards(self, app_label: str, schema_editor: Any, *_states: Any) -> None:
        """Create the outbox in a database that the routers allow it in and that can hold it."""
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label) or connection.vendor not in ("sqlite", "postgresql"):
            return
        for statement in creation(connection.vendor):
            schema_editor.execute(statement, params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, *_states: Any) -> None:
        """Leave the outbox as it is."""

    def describe(self) -> str:
        """Say what is done, for `migrate --plan`."""
        return "Create the table penstock_outbox"
