import pytest

from penstock.cli.migrate import script
from penstock.errors import BadParameter


@pytest.mark.parametrize("database", ["sqlite:///x.db", "postgresql:///x", "postgres:///x"])
def test_the_script_registers_what_it_makes(database: str) -> None:
    sql = script(database)

    assert sql.startswith("BEGIN;")
    assert sql.endswith("COMMIT;\n")
    assert "INSERT INTO penstock_migration VALUES (1, 'log');" in sql


def test_another_database_is_refused() -> None:
    with pytest.raises(BadParameter):
        script("mysql://x")
