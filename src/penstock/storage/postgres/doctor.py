"""Looks at what can be wrong with a PostgreSQL database that serves events."""

from collections.abc import Sequence
from typing import Any

import psycopg

from penstock.storage.findings import outbox_finding, rejected_finding
from penstock.storage.store import Finding

LONG_TRANSACTION_SECONDS = 60.0


def findings(
    connection: "psycopg.Connection[tuple[Any, ...]]",
    url: str,
    *,
    found: int,
    wanted: int,
    long_transaction_seconds: float,
) -> Sequence[Finding]:
    """Return what was found: reachability, schema, durability, long transactions, and the outbox where there is one."""

    def one(sql: str) -> Any:
        row = connection.execute(sql).fetchone()
        return row[0] if row else None

    commit, fsync = one("SHOW synchronous_commit"), one("SHOW fsync")
    long = connection.execute(
        """SELECT pid, coalesce(nullif(application_name, ''), usename, '?'), state,
                  extract(epoch FROM now() - xact_start)::int
           FROM pg_stat_activity
           WHERE xact_start < now() - make_interval(secs => %s) AND pid <> pg_backend_pid()
           ORDER BY xact_start""",
        (long_transaction_seconds,),
    ).fetchall()
    told = "; ".join(f"pid {pid} ({name}, {state}) for {age} s" for pid, name, state, age in long)
    always = [
        Finding("database", True, f"{url}, PostgreSQL {one('SHOW server_version')}"),
        Finding("schema", found == wanted, f"version {found}, this Penstock needs {wanted}"),
        Finding("durability", fsync == "on", _durability(fsync, commit)),
        Finding("long transactions", not long, told or f"none older than {long_transaction_seconds:g} s"),
    ]
    if one("SELECT to_regclass('penstock_outbox') IS NOT NULL"):  # A service may have made it.
        always.append(outbox_finding(one("SELECT count(*) FROM penstock_outbox")))
    if found:
        always.append(rejected_finding(one("SELECT count(*) FROM penstock_rejected")))
    return always


def _durability(fsync: str, commit: str) -> str:
    found = f"fsync={fsync}, synchronous_commit={commit} (raised to on for appends)"
    return found if fsync == "on" else f"{found}; set fsync = on in postgresql.conf, or a crash can lose events"
