import pytest

from penstock.cli.migrate import script
from penstock.errors import BadParameter


@pytest.mark.parametrize("database", ["sqlite:///x.db", "postgresql:///x", "postgres:///x"])
def test_script_registers_its_migrations(database: str) -> None:
    sql = script(database)

    assert sql.startswith("BEGIN;")
    assert sql.endswith("COMMIT;\n")
    assert "INSERT INTO penstock_migration VALUES (1, 'log');" in sql


def test_script_for_another_database_is_refused() -> None:
    with pytest.raises(BadParameter):
        script("mysql://x")
