"""Keeps what was measured beside peers in bench/peers.json, and writes the parts of the pages that show it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Final, Literal

from bench.machine import machine, revision, today
from bench.peers.goals import GOALS
from bench.peers.workloads import FOLLOWED, WORKLOADS, Values
from bench.place import ROOT

KEPT: Final = ROOT / "bench" / "peers.json"
CHOOSING: Final = ROOT / "docs" / "choosing.md"

Role = Literal["ours", "limit", "other"]

_BEGIN: Final = "<!-- Written by `make bench-peers` from bench/peers.json: do not edit. -->"
_END: Final = "<!-- End of what `make bench-peers` writes. -->"
_NOT_YET: Final = "`make bench-peers` writes this part; it has not been run yet."
_SATURATED: Final = 0.95
"""The part of the events a second that were asked for, below which a peer did not keep up."""

_TITLE: Final = "## Beside other systems"
_HEAD: Final = """\
`make bench-peers` installs and measures them: Redis, RabbitMQ and nginx from the system's packages, Kafka's broker,
NATS, and the Python clients of all. `python -m bench.peers PEER… --workloads NAME…` measures some and writes nothing;
`python -m bench.peers --list` shows the names.

Each peer has its turn in each round, alone on the machine, with an empty folder; the figures are medians of the rounds.
Events have 384 bytes. Client and server share the processors. *On disk* means that every write has been flushed to the
disk when it is acknowledged; figures of peers without it can be compared with each other only. Bare sockets are one
client for all, which costs next to nothing. Decoded events are decoded by msgspec. Limits are no hubs: they show what
the machine can do. One broker is one broker: nothing here is replicated."""

_WHAT: Final = """\
In bold: what is missed. Ratios are medians of the rounds' ratios. The bare uvicorn app with group commit on SQLite, and
PostgreSQL with a `COPY` for each transaction, do nothing that a hub is for: they check no event, choose no partition,
look into no outbox and remember no producer."""

_WHY: Final = """\
Where the time goes, by profiles on one such machine:

- **Single events.** With 32 writers an event takes 50 µs of the event loop's thread, of which HTTP alone is 15, 28
  of the committer's and 11 of the access log's, and the three share one interpreter. The bare app's event takes 45
  in all. With one writer nothing is shared out: two hand-overs between threads and the flush follow each other, in
  code that has to be fetched into the processor's caches after each pause, which makes it two to four times slower.
  On PostgreSQL a commit is two exchanges, each of which wakes another process.
- **To the consumer.** An event is published as above; then its reader is woken, opens its page in a worker thread,
  and reads it: on PostgreSQL two exchanges more.
- **Batches of 1000.** On SQLite a batch takes 1.8 ms to be parsed and checked, 2 to 2.5 ms for its rows and the
  commit, and as much again for HTTP, for the hand-over to the committer and back, and for waiting for the
  interpreter. The bare app stores the lines as they come: one value a row.
- **The Python client** encodes while the hub waits, and the hub stores while the client waits.
- **Pages.** On SQLite a page of 1000 takes 0.35 ms in SQLite, 0.1 in the socket, 0.26 for the hand-over to a worker
  thread and back, and the rest some 800 calls of Python, which a page of one event needs too. On PostgreSQL a page
  far from the end is two exchanges, and its rows come one by one: 1 ms."""

_PARTS: Final = {
    "Publishing: events/s (median ms / 99th percentile)": (
        "single-32",
        "single-1",
        "batches-1",
        "batches-4",
        "publish-python",
    ),
    "From sending to the consumer's having it: median ms / 99th percentile": FOLLOWED,
    "Reading: events/s": ("read", "read-python", "readers-100"),
}


@dataclass(frozen=True)
class MeasuredPeer:
    """A peer with its conditions, and the medians of its rounds by workload."""

    name: str
    says: str
    role: Role
    is_durable: bool
    flush: str
    client: str
    version: str
    rounds: Mapping[str, Sequence[Values]]
    """By workload, what each round gave."""

    @cached_property
    def medians(self) -> Mapping[str, Values]:
        """The median of each value over the rounds, by workload."""
        return {
            name: {key: median(values[key] for values in rounds) for key in rounds[0]}
            for name, rounds in self.rounds.items()
        }


@dataclass(frozen=True)
class MeasuredRun:
    """One run of all peers, and where it was."""

    on: str
    revision: str
    machine: Mapping[str, str]
    rounds: int
    events: int
    peers: Sequence[MeasuredPeer]
    failed: Sequence[str]
    """The names of those that could not be measured."""


def keep(measured: Sequence[MeasuredPeer], failed: Sequence[str], rounds: int, events: int, path: Path = KEPT) -> None:
    """Keep what one run has measured, in the place of the run before."""
    kept = MeasuredRun(today(), revision(), machine(), rounds, events, measured, failed)
    path.write_text(json.dumps(asdict(kept), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path = KEPT) -> MeasuredRun | None:
    """Return the run that is kept."""
    if not path.exists():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    return MeasuredRun(**kept | {"peers": [MeasuredPeer(**peer) for peer in kept["peers"]]})


def describe_peers(kept: Path = KEPT) -> list[str]:
    """Return the section of docs/benchmarks.md about peers, line by line."""
    run = load(kept)
    if run is None:
        return [_TITLE, "", _HEAD, "", _NOT_YET, ""]
    parts = [_TITLE, "", _HEAD, ""]
    parts += [f"Measured on {run.on} at {run.revision}, {run.rounds} rounds, logs of {run.events} events:"]
    parts += ["", *(f"- {name}: {text}" for name, text in run.machine.items()), ""]
    if run.failed:
        parts += [f"Could not be measured in this run: {', '.join(run.failed)}.", ""]
    for title, names in _PARTS.items():
        columns = [WORKLOADS[name].says for name in names]
        parts += [f"### {title}", "", f"| | on disk | {' | '.join(columns)} |", f"|---|---|{'--:|' * len(columns)}"]
        for peer in run.peers:
            if any(name in peer.medians for name in names):
                cells = [peer.says, "yes" if peer.is_durable else "no", *(_show(peer, name) for name in names)]
                parts.append(f"| {' | '.join(cells)} |")
        parts.append("")
    parts += [*_compare_to_goals(run.peers), ""]
    parts += ["### Conditions", "", "| | version | who writes to disk when | clients |", "|---|---|---|---|"]
    parts += [f"| {peer.says} | {peer.version} | {peer.flush} | {peer.client} |" for peer in run.peers]
    return [*parts, ""]


def write_choosing(page: Path = CHOOSING, kept: Path = KEPT) -> None:
    """Write the table of docs/choosing.md, and leave the rest of the page as it is."""
    before, _, rest = CHOOSING.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    table = "\n".join(_compare(load(kept)))
    page.write_text(f"{before}{_BEGIN}\n\n{table}\n\n{_END}{after}", encoding="utf-8")


def show_values(workload: str, values: Values) -> str:
    """Return the values of a workload in a few characters.

    >>> show_values("single-1", {"rate": 1234.5, "p50": 0.81, "p99": 2.04})
    '1 234 (0.8 / 2.0)'
    >>> show_values("follow-2000", {"rate": 2000.0, "p50": 0.81, "p99": 2.04})
    '0.8 / 2.0'
    >>> show_values("follow-2000", {"rate": 1234.5, "p50": 810.0, "p99": 2040.0})
    'saturated at 1 234 events/s'
    """
    rate = f"{values['rate']:,.0f}".replace(",", " ")
    if "p50" not in values:
        return rate
    times = f"{values['p50']:.1f} / {values['p99']:.1f}"
    if workload not in FOLLOWED:
        return f"{rate} ({times})"
    return f"saturated at {rate} events/s" if _is_saturated(workload, values) else times


def _compare(run: MeasuredRun | None) -> list[str]:
    """Return the table of Penstock beside the fastest of the others, workload by workload."""
    if run is None:
        return [_NOT_YET]
    ours = [peer for peer in run.peers if peer.role == "ours"]
    others = [peer for peer in run.peers if peer.role == "other"]
    columns = [*(peer.says for peer in ours), "fastest other, on disk", "fastest other, not flushed for each write"]
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'--:|' * len(ours)}---|---|"]
    durable = [peer for peer in others if peer.is_durable]
    flushed_later = [peer for peer in others if not peer.is_durable]
    for name, workload in WORKLOADS.items():
        cells = [
            workload.says,
            *(_show(peer, name) for peer in ours),
            _show_fastest(durable, name),
            _show_fastest(flushed_later, name),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _compare_to_goals(peers: Sequence[MeasuredPeer]) -> list[str]:
    """Return the table of Penstock beside what its databases can do and what it is to reach."""
    rounds = {peer.name: peer.rounds for peer in peers}
    ours = [peer for peer in peers if peer.role == "ours"]
    cells: dict[str, dict[str, str]] = {}
    for goal in GOALS:
        value = goal.find_value(rounds)
        if value is not None:
            cells.setdefault(goal.says, {})[goal.peer] = goal.describe(value)
    lines = ["### Penstock beside what it is to reach", "", _WHAT, ""]
    lines += [f"| | {' | '.join(peer.says for peer in ours)} |", f"|---|{'---|' * len(ours)}"]
    lines += [f"| {says} | {' | '.join(row.get(peer.name, '') for peer in ours)} |" for says, row in cells.items()]
    return [*lines, "", _WHY]


def _show_fastest(peers: Iterable[MeasuredPeer], name: str) -> str:
    measured = [peer for peer in peers if name in peer.medians]
    if not measured:
        return ""
    fastest = min(measured, key=lambda peer: _slowness(name, peer.medians[name]))
    return f"{fastest.says}: {_show(fastest, name)}"


def _slowness(workload: str, values: Values) -> float:
    if workload in FOLLOWED and not _is_saturated(workload, values):
        return values["p50"] - 1e9  # Those that kept up come first.
    return -values["rate"]


def _is_saturated(workload: str, values: Values) -> bool:
    return values["rate"] < _SATURATED * FOLLOWED[workload]


def _show(peer: MeasuredPeer, name: str) -> str:
    return show_values(name, peer.medians[name]) if name in peer.medians else ""
