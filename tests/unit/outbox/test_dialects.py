"""The SQL, and how each driver wants to hear it."""

from pathlib import Path

import pytest

from penstock.outbox import dialects
from penstock.outbox.dialects import sql, statement, to_numbered, to_pyformat

FILES = sorted((Path(dialects.__file__).parent / "statements").rglob("*.sql"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_statement_begins_with_a_comment_that_is_not_sent(path: Path) -> None:
    assert path.read_text().startswith("-- ")
    text = statement("sqlite" if path.parent.name == "sqlite" else "postgresql", path.stem)
    assert text and not text.startswith("--")


def test_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="postgresql"):
        sql("oracle")  # type: ignore[arg-type]


def test_times_and_casts_are_not_taken_for_parameters() -> None:
    text = "SELECT CAST(:a AS text), '12:30', b::text, :a, :b"

    assert to_numbered(text) == ("SELECT CAST($1 AS text), '12:30', b::text, $1, $2", ("a", "b"))
    assert to_pyformat(text) == "SELECT CAST(%(a)s AS text), '12:30', b::text, %(a)s, %(b)s"
