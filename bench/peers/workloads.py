"""The workloads: each peer has those that make sense for it."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import quantiles
from typing import Any, Final

from bench.load.program import Program, together
from bench.servers import resident_bytes

Values = dict[str, float]


@dataclass(frozen=True)
class PeerScale:
    """How much is measured."""

    quick: bool = False

    @property
    def rounds(self) -> int:
        """How many times each peer has its turn."""
        return 1 if self.quick else 3

    @property
    def seconds(self) -> float:
        """How long each workload is measured."""
        return 0.3 if self.quick else 3.0

    @property
    def paced_seconds(self) -> float:
        """For how long events are published at a given rate; as long again before it is measured, at most a second."""
        return 0.5 if self.quick else 5.0

    @property
    def events(self) -> int:
        """How many events a log has that is read."""
        return 5_000 if self.quick else 1_000_000

    @property
    def readers(self) -> int:
        """How many readers read one log together."""
        return 10 if self.quick else 100


class Loads:
    """Starts the loads of one peer that is running."""

    def __init__(
        self, module: str, program: type[Program] = Program, /, server_pid: int | None = None, **given: Any
    ) -> None:
        self._module, self._program, self._given = module, program, given
        self._server_pid = server_pid

    def start(self, **more: Any) -> Program:
        """Start one in a process of its own."""
        return self._program(self._module, **self._given, **more)

    def find_memory(self) -> Values:
        """Return the megabytes that the server holds, if it is known which process that is."""
        return {} if self._server_pid is None else {"memory": resident_bytes(self._server_pid) / 1e6}


@dataclass(frozen=True)
class Workload:
    """A workload by name."""

    name: str
    says: str
    measure: Callable[[Loads, PeerScale], Values]


def _publish_single(writers: int) -> Callable[[Loads, PeerScale], Values]:
    def measure(loads: Loads, scale: PeerScale) -> Values:
        with loads.start() as program:
            return _values(program(work="single", writers=writers, seconds=scale.seconds))

    return measure


def _follow(per_second: int) -> Callable[[Loads, PeerScale], Values]:
    def measure(loads: Loads, scale: PeerScale) -> Values:
        with loads.start() as publisher, loads.start(follows=True) as follower:
            warm_up = int(per_second * min(1.0, scale.paced_seconds))
            _publish_and_follow(publisher, follower, 0, warm_up, per_second)
            count = int(per_second * scale.paced_seconds)
            return _publish_and_follow(publisher, follower, warm_up, count, per_second)

    return measure


def _publish_and_follow(publisher: Program, follower: Program, first: int, count: int, per_second: int) -> Values:
    follower.start(work="follow", last=first + count - 1, count=count)
    sent = publisher(work="pace", first=first, count=count, per_second=per_second)["at"]
    seen = follower.result()["at"]
    taken = [(seen[number] - at) / 1e6 for number, at in sent.items()]
    parts = quantiles(taken, n=100)
    elapsed = (max(seen.values()) - min(sent.values())) / 1e9
    return {"p50": parts[49], "p99": parts[98], "rate": count / elapsed}


def _publish_batches(connections: int) -> Callable[[Loads, PeerScale], Values]:
    def measure(loads: Loads, scale: PeerScale) -> Values:
        with ExitStack() as stack:
            programs = [stack.enter_context(loads.start()) for _ in range(connections)]
            results = together(programs, work="batches", seconds=scale.seconds)
            return {"rate": sum(float(each["rate"]) for each in results)}

    return measure


def _carry_out(work: str) -> Callable[[Loads, PeerScale], Values]:
    def measure(loads: Loads, scale: PeerScale) -> Values:
        with loads.start() as program:
            return _values(program(work=work, seconds=scale.seconds))

    return measure


def _read_together(loads: Loads, scale: PeerScale) -> Values:
    with loads.start() as program:
        return _values(program(work="readers", readers=scale.readers, seconds=scale.seconds)) | loads.find_memory()


def _values(result: Any) -> Values:
    return {name: float(value) for name, value in result.items()}


FOLLOWED: Final = {"follow-200": 200, "follow-2000": 2000}
"""The workloads that publish a given number of events a second."""
WORKLOADS: Final = {
    each.name: each
    for each in (
        Workload("single-32", "single events, 32 writers", _publish_single(32)),
        Workload("single-1", "single events, 1 writer", _publish_single(1)),
        *(
            Workload(name, f"publish to consumer at {per_second} events/s", _follow(per_second))
            for name, per_second in FOLLOWED.items()
        ),
        Workload("batches-1", "batches of 1000, 1 connection", _publish_batches(1)),
        Workload("batches-4", "batches of 1000, 4 connections", _publish_batches(4)),
        Workload("publish-python", "publish 1000 dicts with the Python client", _carry_out("client")),
        Workload("read", "read a log in pages of 1000, without looking into events", _carry_out("read")),
        Workload("read-python", "read a log in Python, decoded, with default options", _carry_out("decode")),
        Workload("readers-100", "100 readers of one log, together", _read_together),
    )
}
