"""Checks of a PostgreSQL database for `penstock doctor`."""

from collections.abc import Sequence
from typing import Any

import psycopg

from penstock.storage.store import DoctorFinding, check_outbox, check_rejected

LONG_TRANSACTION_SECONDS = 60.0


def diagnose(
    connection: "psycopg.Connection[tuple[Any, ...]]",
    url: str,
    *,
    found: int,
    wanted: int,
    long_transaction_seconds: float,
) -> Sequence[DoctorFinding]:
    """Check reachability, schema, durability, long transactions, and the outbox if there is one."""

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
    findings = [
        DoctorFinding("database", True, f"{url}, PostgreSQL {one('SHOW server_version')}"),
        DoctorFinding("schema", found == wanted, f"version {found}, this Penstock needs {wanted}"),
        DoctorFinding("durability", fsync == "on", _durability(fsync, commit)),
        DoctorFinding("long transactions", not long, told or f"none older than {long_transaction_seconds:g} s"),
    ]
    if one("SELECT to_regclass('penstock_outbox') IS NOT NULL"):  # A service may have created it.
        findings.append(check_outbox(one("SELECT count(*) FROM penstock_outbox")))
    if found:
        findings.append(check_rejected(one("SELECT count(*) FROM penstock_rejected")))
    return findings


def _durability(fsync: str, commit: str) -> str:
    found = f"fsync={fsync}, synchronous_commit={commit} (raised to on for appends)"
    return found if fsync == "on" else f"{found}; set fsync = on in postgresql.conf, or a crash can lose events"
