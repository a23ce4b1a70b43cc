"""The migration operation of the Django app."""

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from penstock.outbox.dialects import creation_statements


class CreateOutbox(Operation):
    """Creates the outbox if it is missing; keeps it on a backward migration, because it can contain events."""

    reversible = True
    reduces_to_sql = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change no model: the outbox has none."""

    def database_forwards(self, app_label: str, schema_editor: Any, *_states: Any) -> None:
        """Create the outbox if the routers allow it in the database, and the database is supported."""
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label) or connection.vendor not in ("sqlite", "postgresql"):
            return
        for statement in creation_statements(connection.vendor):
            schema_editor.execute(statement, params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, *_states: Any) -> None:
        """Keep the outbox."""

    def describe(self) -> str:
        """Return the description for `migrate --plan`."""
        return "Create the table penstock_outbox"
