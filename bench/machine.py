"""Tells what the benchmarks ran on."""

import os
import platform
import sqlite3
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.place import BUILD, ROOT
from penstock.testing.postgres import PostgresMissing, find_programs

PACKAGES = ("penstock-hub", "uvicorn", "uvloop", "httptools", "starlette", "msgspec", "psycopg", "pyarrow", "pyspark")


def machine() -> dict[str, str]:
    """Describe the machine and the versions, each line under its name."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "disk": _disk(),
        "system": f"{_distribution()}, Linux {platform.release()}",
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": _postgres(),
        "Java": _said("java", "-version"),
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    }


def today() -> str:
    """Return the date."""
    return datetime.now(UTC).date().isoformat()


def revision() -> str:
    """Return the commit that is measured, with a plus where files differ from it."""
    commit = _said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    return commit + "+" * bool(_said("git", "-C", str(ROOT), "status", "--porcelain", "--", "src"))


def _processor() -> str:
    found = [
        line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if line.startswith("model name")
    ]
    return found[0].partition(": ")[2] if found else platform.machine()


def _distribution() -> str:
    return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")


def _disk() -> str:
    """Return how long an fsync takes where the databases are: it bounds every durable figure."""
    times = []
    with tempfile.TemporaryFile(dir=BUILD, buffering=0) as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    return f"fdatasync of 4 KiB in {sorted(times)[100] * 1e6:.0f} µs (median)"


def _postgres() -> str:
    try:
        return _said(str(find_programs() / "postgres"), "--version").rpartition(") ")[2].split()[0]
    except PostgresMissing:
        return "none"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    said = (done.stdout or done.stderr).splitlines()
    return said[0] if said else ""
