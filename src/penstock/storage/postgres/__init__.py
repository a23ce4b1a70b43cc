"""The store in a PostgreSQL database; each module implements the port of the same name in `penstock.storage`."""

from typing import Final

from penstock.storage.statements import Dialect, replace_words

_WORDS: Final = {
    r"\bjson_each\((:\w+)\)": r"json_array_elements_text(\1::json) AS json_each (value)",
    r"\bas_json\(([\w.]+)\)": r"\1::json",
    r"\bjson_group_array\((\w+)\)": r"coalesce(json_agg(\1), '[]')::text",
    r"\bclock_micros\(\)": "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
    r"(?<!:):([a-z_]\w*)": r"%(\1)s",
    r"\?": "%s",
}


def to_postgres(sql: str) -> str:
    """Return a statement for PostgreSQL, with the placeholders of psycopg.

    >>> to_postgres("SELECT value::text FROM json_each(:ids) WHERE value LIKE '%:a'")
    "SELECT value::text FROM json_array_elements_text(%(ids)s::json) AS json_each (value) WHERE value LIKE '%%:a'"
    """
    return replace_words(sql.replace("%", "%%"), _WORDS)


POSTGRES: Final = Dialect(__name__, translate=to_postgres)
