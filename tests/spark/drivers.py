"""Drivers of Spark that run here, and are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, Self, TypeAlias

from tests.faults.processes import children, living
from tests.java import spark_options
from tests.spark.daemons import spark_home

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("processing_driver.py")
START_SECONDS_MAX = 300
END_SECONDS_MAX = 300
GONE_SECONDS_MAX = 300
EXECUTORS = {
    "master": "local-cluster[2,1,600]",
    "config": {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": spark_options()},
}
"""Of a driver that has two executors, which are processes of their own."""
Part: TypeAlias = Literal["python", "java", "all"]
"""Of a driver: what runs our code, what runs Spark, or both of them at once with all that they have started."""


class Driver:
    """A driver in a session of processes of its own, where Python has started Java, or Java has started Python.

    Args:
        command: What starts it; its last word is where it is to write what it has found.
        log: Where it logs.
        env: Its environment, by default this process's.
        cwd: Its directory, by default that of its log.
        stdout: Where it writes, by default to its log.
    """

    seconds_max = END_SECONDS_MAX
    """How long it may take to its end."""

    def __init__(
        self,
        command: Sequence[str],
        log: IO[bytes],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: int | None = None,
    ) -> None:
        self.log, self._told = Path(log.name), Path(command[-1])
        self._process = subprocess.Popen(
            command, cwd=cwd or self.log.parent, env=env, stdout=log if stdout is None else stdout, stderr=log,
            text=True, start_new_session=True,
        )  # fmt: skip
        self.session = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill("all")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """What it has logged."""
        return self.log.read_text()

    def kill(self, part: Part) -> None:
        """Kill it, or a part, whose end is the other's, too; wait until nothing can be committed any more."""
        pids = living(self.session) if part == "all" else [self._running(part)]
        while pids:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            pids = living(self.session) if part == "all" else []  # One may have begun since.
        self._process.wait(END_SECONDS_MAX)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def has_succeeded(self) -> bool:
        """Wait for its end; return whether its status is 0."""
        return self._process.wait(self.seconds_max) == 0

    def result(self) -> Any:
        """Wait for its end, and return the result that it has written."""
        assert self.has_succeeded(), self.output[-6000:]
        return json.loads(self._told.read_text())

    def is_gone(self) -> bool:
        """Wait until none of its processes is there any more; tell whether that has come."""
        deadline = time.monotonic() + GONE_SECONDS_MAX
        while (left := living(self.session)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return not left

    def _running(self, part: Part) -> int:
        """Return which process is that part; what the second one has started is no part of it."""
        (found,) = [pid for pid in (self.session, *children(self.session)) if _program(pid).startswith(part)]
        return found


class ModuleDriver(Driver):
    """A driver that runs `python -m` a module of these tests.

    Args:
        module: Its name, and what it is called with.
        folder: Where it logs.
    """

    def __init__(self, *module: str, folder: Path) -> None:
        with (folder / "driver.log").open("ab") as log:
            super().__init__([sys.executable, "-m", *module], log, env=own_workers(), cwd=ROOT)


class LocalDriver(Driver):
    """A driver that runs `processing_driver.py`, with its executors on this machine, in its session.

    Args:
        job: What it does.
        folder: Where it logs.
        has_executors: Whether they are processes of their own.
        given: What the job is given.
    """

    def __init__(self, job: str, folder: Path, *, has_executors: bool = False, **given: Any) -> None:
        master = EXECUTORS if has_executors else {"master": "local[2]"}
        words = [str(SCRIPT), job, json.dumps({**master, **given}), str(folder / f"{job}.json")]
        env = {**own_workers(), "SPARK_HOME": str(spark_home())}
        with (folder / f"{job}.log").open("ab") as log:
            super().__init__([sys.executable, *words], log, env=env, stdout=subprocess.PIPE)

    def executors(self) -> list[int]:
        """Return those that are processes of their own."""
        return [pid for pid in children(self._running("java")) if _program(pid).startswith("java")]

    def wait_until_it_runs(self) -> Self:
        """Wait until it says that it runs."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "running\n", self.output[-6000:]
        return self


def own_workers() -> dict[str, str]:
    """Return an environment in which Spark starts its Python workers itself: they are in the driver's session."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def _program(pid: int) -> str:
    return (Path("/proc") / str(pid) / "comm").read_text()
