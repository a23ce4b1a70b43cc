"""Keeps what was measured, and writes docs/benchmarks.md and the pages beneath it."""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.figure import FIGURES, Page, Row, Target
from bench.machine import machine, revision, today
from bench.peers.results import describe_peers
from bench.place import ROOT

KEPT: Final = ROOT / "bench" / "results.json"
REMARKS: Final = ROOT / "bench" / "remarks.toml"
DOCS: Final = ROOT / "docs"

_WRITTEN: Final = "<!-- Written by `make bench` and `make bench-peers` from what they keep in bench/: do not edit. -->"
_HEAD: Final = f"""\
# Benchmarks

{_WRITTEN}

How fast Penstock is, on which machine, and where it misses what it is to reach. `make bench-peers` measures it
[beside other systems](#beside-other-systems), `make bench` [by itself](#figures-by-subject), where every ratio is of
two things measured in turn.
"""
_PAGE_HEAD: Final = """\
Every ratio is of two things measured in turn (A B A B …) in one run on one machine: the median of the pairs' ratios.
The absolute figures are medians of the same run. Events have 384 bytes. Hubs are processes of their own, started by
`penstock serve`; clients are bare sockets, each in a process of its own. Every publish is on disk when it is answered.
Logs that are read are in the machine's memory. `python -m bench NAME…` measures some figures again.
"""
_TITLES: Final[dict[Page, tuple[str, str]]] = {
    "publishing": ("Benchmarks of publishing", "batches, single events, tokens, schemas, the outbox"),
    "reading": ("Benchmarks of reading", "feeds, columns, long logs, caches and replicas"),
    "consumers": ("Benchmarks of consumers", "latency, waiting readers, subscriptions"),
    "spark": ("Benchmarks of Spark", "reading, streaming, writing"),
    "processing": ("Benchmarks of processors", "the local runner, projections, Spark's"),
    "lifetime": ("Benchmarks of retention and the cold tier", "deleting, sealing, an hour of both"),
}
_COLUMNS: Final = "| what is compared | Penstock | beside it | ratio | target | reached |\n|---|--:|--:|--:|--:|---|"


@dataclass(frozen=True)
class Measured:
    """A figure's rows, and when, of what and where they were taken."""

    rows: Sequence[Row]
    on: str
    revision: str
    machine: str
    """By its processor: what else there is of it, stands once for all figures of it."""


def keep(name: str, rows: Sequence[Row]) -> None:
    """Keep the rows of one figure, in the place of those before."""
    here = machine()
    kept = _load()
    kept["figures"][name] = asdict(Measured(rows, today(), revision(), here["processor"]))
    used = {each["machine"] for each in kept["figures"].values()}
    known = kept["machines"] | {here["processor"]: here}
    kept["machines"] = {name: known[name] for name in sorted(used)}
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_pages(docs: Path = DOCS) -> None:
    """Write docs/benchmarks.md and the pages beneath it from what is kept."""
    kept = _load()
    if unknown := set(kept["figures"]) - set(FIGURES):
        raise ValueError(f"{KEPT.name} has figures that are not known, import bench.figures first: {sorted(unknown)}")
    (docs / "benchmarks").mkdir(exist_ok=True)
    (docs / "benchmarks.md").write_text("\n".join(_overview(kept)), encoding="utf-8")
    for page in _TITLES:
        (docs / "benchmarks" / f"{page}.md").write_text("\n".join(_page(kept, page)), encoding="utf-8")


def _overview(kept: dict[str, Any]) -> list[str]:
    """Return docs/benchmarks.md, line by line."""
    parts = [_HEAD, *describe_peers(), "## Figures by subject", ""]
    parts += [f"- [{title}](benchmarks/{page}.md): {subjects}" for page, (title, subjects) in _TITLES.items()]
    parts += ["", "`python -m bench --list` shows their names. These miss their targets; the pages say why:", ""]
    parts += ["| figure | what is compared | ratio or value | target |", "|---|---|--:|--:|"]
    for name, figure in FIGURES.items():
        for row in map(_row, kept["figures"].get(name, {"rows": []})["rows"]):
            if row.target is not None and not row.target.reached_by(row.judged):
                link = f"[{name}](benchmarks/{figure.page}.md#{_anchor(figure.says)})"
                parts.append(f"| {link} | {row.what} | {_judged(row) or row.ours} | {_target(row)} |")
    return [*parts, ""]


def _page(kept: dict[str, Any], page: Page) -> list[str]:
    """Return a page of figures, line by line."""
    remarks: dict[str, str] = tomllib.loads(REMARKS.read_text(encoding="utf-8"))
    figures = {name: each for name, each in FIGURES.items() if each.page == page and name in kept["figures"]}
    parts = [f"# {_TITLES[page][0]}", "", _WRITTEN, "", _PAGE_HEAD]
    for name, figure in figures.items():
        found = kept["figures"][name]
        parts += [f"## {figure.says.rstrip('.')}", ""]
        parts += [f"`{name}`, measured on {found['on']} at {found['revision']}, on {found['machine']}", "", _COLUMNS]
        parts += [_line(_row(row)) for row in found["rows"]]
        if name in remarks:
            parts += ["", remarks[name].strip()]
        parts.append("")
    parts.append("## Machines")
    for machine_name in sorted({kept["figures"][name]["machine"] for name in figures}):
        parts += ["", *(f"- {name}: {text}" for name, text in kept["machines"][machine_name].items())]
    return [*parts, ""]


def told(row: Row) -> str:
    """Return a row for the terminal."""
    beside = f" beside {row.beside}" if row.beside else ""
    judged = f" ratio {row.judged:.2f}" if _is_ratio(row) else ""
    target = f" [{row.target}: {_reached(row)}]" if row.target else ""
    return f"  {row.what}:\n      {row.ours}{beside}{judged}{target}"


def _line(row: Row) -> str:
    return f"| {row.what} | {row.ours} | {row.beside} | {_judged(row)} | {_target(row)} | {_reached(row)} |"


def _judged(row: Row) -> str:
    return f"{row.judged:.2f}" if _is_ratio(row) else ""


def _target(row: Row) -> str:
    return str(row.target or "")


def _anchor(heading: str) -> str:
    """Return the place that a heading is linked by.

    >>> _anchor("Publish to waiting reader at 200 events/s, over HTTP.")
    'publish-to-waiting-reader-at-200-eventss-over-http'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _is_ratio(row: Row) -> bool:
    return bool(row.beside) and not (row.target and row.target.unit)


def _reached(row: Row) -> str:
    if row.target is None:
        return ""
    return "yes" if row.target.reached_by(row.judged) else "**no**"


def _row(kept: dict[str, Any]) -> Row:
    target = Target(**kept["target"]) if kept["target"] else None
    return Row(**(kept | {"target": target}))


def _load() -> dict[str, Any]:
    loaded: dict[str, Any] = (
        json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"machines": {}, "figures": {}}
    )
    return loaded
