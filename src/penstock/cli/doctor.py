"""`penstock doctor`: looks at everything that can be wrong."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import typer

from penstock.cli.options import DATABASE, DatabaseOption, OutputOption

Verdict = Literal["ok", "absent", "wrong"]
JAVA_MIN: Final = 17
OF_TABLES: Final = ("durability", "outbox", "rejected")
"""What a store may have nothing to say about before there are tables."""


class DoctorResult(NamedTuple):
    """One thing that was looked at. What is absent is not wrong: the hub works without it, or makes it."""

    name: str
    verdict: Verdict
    says: str


def doctor(database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Look at what can be wrong: the database, its tables and settings, long transactions, the outbox, Java and Spark.

    Ends with 1 if something is wrong. Java and Spark may be absent: the hub works without them.
    """
    from penstock.cli.output import print_json

    found = [*_database(database), *_spark()]
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
    from penstock.cli.database import opened
    from penstock.cli.failures import CommandFailure
    from penstock.errors import DatabaseUnsuitable
    from penstock.errors.root import with_hint

    advice = None
    try:
        with opened(url) as store:
            findings = store.doctor()
            if not all(well for name, well, _ in findings if name == "schema"):
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
