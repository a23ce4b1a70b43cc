"""`penstock doctor`: looks at everything that can be wrong."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import typer

from penstock.cli.authentication import TlsCertificate
from penstock.cli.options import DATABASE, DatabaseOption, OutputOption

if TYPE_CHECKING:
    from penstock.storage import Store
    from penstock.storage.admin import StoredToken

Verdict = Literal["ok", "absent", "wrong"]
JAVA_MIN: Final = 17
TOKEN_SECONDS: Final = 7 * 86_400
"""Tokens that expire within this time are named."""
SHOWN_MAX: Final = 5
"""Maximum number of callers that are named."""
OF_TABLES: Final = ("durability", "outbox", "rejected")
"""Checks without a result before there are tables."""


class DoctorResult(NamedTuple):
    """The result of one check. A missing object is not a fault: the hub works without it, or creates it."""

    name: str
    verdict: Verdict
    says: str


def doctor(database: DatabaseOption = DATABASE, tls_cert: TlsCertificate = None, output: OutputOption = "text") -> None:
    """Look at what can be wrong: the database, its tables, long transactions, the outbox, files, access, Spark.

    Ends with 1 if something is wrong. Java and Spark may be absent: the hub works without them.
    """
    from penstock.cli.output import print_json

    found = [*_database(database), *_certificate(tls_cert), *_spark()]
    well = all(each.verdict != "wrong" for each in found)
    if output == "json":
        print_json({"ok": well, "checks": [each._asdict() for each in found]})
    else:
        _show(found)
    if not well:
        raise typer.Exit(1)


def _show(found: list[DoctorResult]) -> None:
    from rich.table import Table
    from rich.text import Text

    from penstock.cli.output import console

    marks = {"ok": Text("ok", "green"), "absent": Text("absent", "yellow"), "wrong": Text("WRONG", "bold red")}
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, verdict, says in found:
        table.add_row(marks[verdict], name, Text(says, overflow="fold"))
    console().print(table)


def _database(url: str) -> Iterator[DoctorResult]:
    from penstock.cli.database import open_database
    from penstock.cli.failures import CommandFailure
    from penstock.errors import DatabaseUnsuitable
    from penstock.errors.root import with_hint

    advice, inside = None, list[DoctorResult]()
    try:
        with open_database(url) as store:
            findings = store.doctor()
            if all(well for name, well, _ in findings if name == "schema"):
                inside = [*_look_inside(store)]
            else:
                try:
                    store.check()
                except DatabaseUnsuitable as error:
                    advice = error.hint
    except CommandFailure as error:
        yield DoctorResult("database", "wrong", with_hint(error.detail, error.hint))
        return
    for name, well, says in findings:
        yield DoctorResult(name, "ok" if well else "wrong", with_hint(says, advice if name == "schema" else None))
    for name in OF_TABLES:
        if name not in {found.name for found in findings}:
            yield DoctorResult(name, "absent", "nothing to look at before `penstock migrate` has run")
    yield from inside


def _look_inside(store: "Store") -> Iterator[DoctorResult]:
    """Look at the cold tier, and at who may do what, as far as the database says it."""
    from penstock.cli.output import plural
    from penstock.errors import DatabaseUnavailable
    from penstock.hub.admin.settings import SettingsSnapshot
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock
    from penstock.hub.own_events import AUDIT_FEATURE
    from penstock.storage.admin import FEATURE
    from penstock.storage.cold.log import find_location
    from penstock.storage.cold.manifest import ALL

    try:
        with store.read() as tx:
            settings = tx.settings.list()
            location, files = find_location(tx.settings), tx.cold.measure(ALL).event_types
        tokens = Tokens(store, system_clock).list()
    except DatabaseUnavailable as error:
        if type(error.__cause__).__name__ != "InsufficientPrivilege":
            raise
        yield DoctorResult(
            "access", "absent", "this role may not read settings, tokens and files: ask as the hub's role"
        )
        return
    if location is None:
        yield DoctorResult("cold tier", "absent", "all events stay in the database: see `penstock serve --cold`")
    else:
        count, size = sum(each.files for each in files), sum(each.bytes for each in files) / 1e6
        says = f"{location} should have {plural(count, 'file')} of {size:.1f} MB: `penstock cold verify` looks"
        yield DoctorResult("cold tier", "ok", says)
    if any((each.kind, each.name) == (FEATURE, AUDIT_FEATURE) for each in settings):
        yield DoctorResult("authentication", "ok", "a hub with --auth has served this database")
    else:
        says = "no hub with --auth has served this database: whoever reaches a hub may do everything"
        yield DoctorResult("authentication", "absent", says)
    lists = SettingsSnapshot.of(settings).administration
    if lists["admins"]:
        yield DoctorResult("administrators", "ok", ", ".join(map(str, lists["admins"])))
    else:
        says = "none but those of `penstock serve --admin`: `penstock access add admins` adds some"
        yield DoctorResult("administrators", "absent", says)
    yield _tokens(tokens, system_clock())


def _tokens(tokens: "Sequence[StoredToken]", now: int) -> DoctorResult:
    """Look for callers who are left without a valid token, or soon will be."""
    from penstock.core.times import format_time

    if not tokens:
        return DoctorResult("tokens", "absent", "none: `penstock token create NAME` makes one")
    last: dict[str, float] = {}
    for each in tokens:
        expires_at = float("inf") if each.expires_at is None else each.expires_at
        last[str(each.caller)] = max(expires_at, last.get(str(each.caller), 0))
    valid = sum(each.is_valid(now) for each in tokens)
    says = [f"{valid} valid, {len(tokens) - valid} expired"]
    if expired := sorted(caller for caller, at in last.items() if at <= now):
        says.append(f"without a valid one: {_join(expired)}")
    ending = sorted((at, caller) for caller, at in last.items() if now < at < now + TOKEN_SECONDS * 1_000_000)
    if ending:
        says.append("last ones expire: " + _join([f"{caller} at {format_time(int(at))}" for at, caller in ending]))
    return DoctorResult("tokens", "ok", "; ".join(says))


def _join(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def _certificate(file: Path | None) -> Iterator[DoctorResult]:
    """Look at the certificate by which a hub serves HTTPS."""
    if file is None:
        yield DoctorResult("certificate", "absent", "name it by --tls-cert, or PENSTOCK_TLS_CERT, to have it looked at")
        return
    from penstock.server.http.tls import TlsFilesUnusable, find_fault, read_certificate

    try:
        validity = read_certificate(file)
    except TlsFilesUnusable as error:
        yield DoctorResult("certificate", "wrong", str(error))
        return
    fault = find_fault(file, validity)
    says = fault or f"{file} is valid until {validity.format_end()}"
    yield DoctorResult("certificate", "ok" if fault is None else "wrong", says)


def _spark() -> Iterator[DoctorResult]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("pyspark")
    except PackageNotFoundError:
        yield DoctorResult("spark", "absent", "pip install 'penstock-hub[spark]' adds it; the hub works without")
        yield _java(wanted=False)
        return
    parts = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    yield DoctorResult("spark", "ok" if parts >= (4, 2) else "wrong", f"pyspark {found}, 4.2 or newer is needed")
    yield _java(wanted=True)


def _java(*, wanted: bool) -> DoctorResult:
    """Look for the Java that Spark would start: that of JAVA_HOME, else the first on the path."""
    import os
    import re
    import shutil
    import subprocess

    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    missing: Verdict = "wrong" if wanted else "absent"
    if program is None:
        return DoctorResult(
            "java", missing, f"not found; Spark needs Java {JAVA_MIN} or newer: install it, or set JAVA_HOME"
        )
    try:
        done = subprocess.run([program, "-version"], capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return DoctorResult("java", missing, f"{program} does not run: {error}")
    match = re.search(rb'version "(\d+)', done.stderr)
    major = int(match[1]) if match else 0
    says = f"{program} is version {major or '?'}, Spark needs {JAVA_MIN} or newer"
    return DoctorResult("java", "ok" if major >= JAVA_MIN else missing, says)
