"""Keeps what was measured, and writes the table of docs/benchmarks.md from it."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.figure import FIGURES, Row, Target
from bench.machine import machine, revision, today
from bench.peers.results import describe_peers
from bench.place import ROOT

KEPT: Final = ROOT / "bench" / "results.json"
REMARKS: Final = ROOT / "bench" / "remarks.toml"
PAGE: Final = ROOT / "docs" / "benchmarks.md"

_HEAD: Final = """\
# Benchmarks

<!-- Written by `make bench` and `make bench-peers` from what they keep in bench/: do not edit. -->

Every ratio is of two things measured in turn (A B A B …) in one run on one machine: the median of the pairs' ratios.
The absolute figures are medians of the same run. Events have 384 bytes. Hubs are processes of their own, started by
`penstock serve`; clients are bare sockets, each in a process of its own. Every publish is on disk when it is answered.
Logs that are read are in the machine's memory.

`make bench` measures all of it, `python -m bench NAME…` some, `python -m bench --list` shows the names.
[The last section](#beside-other-systems) has other systems beside it; `make bench-peers` measures them.
"""
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


def write_page(page: Path = PAGE) -> None:
    """Write the page from what is kept."""
    kept = _load()
    if unknown := set(kept["figures"]) - set(FIGURES):
        raise ValueError(f"{KEPT.name} has figures that are not known, import bench.figures first: {sorted(unknown)}")
    remarks: dict[str, str] = tomllib.loads(REMARKS.read_text(encoding="utf-8"))
    parts = [_HEAD]
    for each in kept["machines"].values():
        parts += [*(f"- {name}: {text}" for name, text in each.items()), ""]
    for name, figure in FIGURES.items():
        if name not in kept["figures"]:
            continue
        found = kept["figures"][name]
        parts += [f"## {figure.says.rstrip('.')}", ""]
        where = f", on {found['machine']}" if len(kept["machines"]) > 1 else ""
        parts += [f"`{name}`, measured on {found['on']} at {found['revision']}{where}", "", _COLUMNS]
        parts += [_line(_row(row)) for row in found["rows"]]
        if name in remarks:
            parts += ["", remarks[name].strip()]
        parts.append("")
    page.write_text("\n".join([*parts, *describe_peers()]), encoding="utf-8")


def told(row: Row) -> str:
    """Return a row for the terminal."""
    beside = f" beside {row.beside}" if row.beside else ""
    judged = f" ratio {row.judged:.2f}" if _is_ratio(row) else ""
    target = f" [{row.target}: {_reached(row)}]" if row.target else ""
    return f"  {row.what}:\n      {row.ours}{beside}{judged}{target}"


def _line(row: Row) -> str:
    judged = f"{row.judged:.2f}" if _is_ratio(row) else ""
    target = str(row.target).replace(">=", "≥").replace("<=", "≤") if row.target else ""
    return f"| {row.what} | {row.ours} | {row.beside} | {judged} | {target} | {_reached(row)} |"


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
