"""Drivers on this machine that run `processing_driver.py`, and are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from tests.faults.processes import children, living

SCRIPT = Path(__file__).with_name("processing_driver.py")
START_SECONDS_MAX = 240
END_SECONDS_MAX = 300
GONE_SECONDS_MAX = 30
Part: TypeAlias = Literal["python", "java", "all"]
"""Of a driver: what runs our code, what runs Spark, or both of them at once with all that they have started."""


class LocalDriver:
    """A driver whose executors are on this machine, in a session of processes of its own."""

    def __init__(self, job: str, folder: Path, **given: Any) -> None:
        self._told, self.log = folder / f"{job}.json", folder / f"{job}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(SCRIPT), job, json.dumps({"master": "local[2]", **given}), str(self._told)],
                cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        self.session = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill("all")

    def begun(self) -> Self:
        """Wait until it says that it runs."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "running\n", self.said
        return self

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def said(self) -> str:
        return self.log.read_text()[-6000:]

    def kill(self, part: Part) -> None:
        """Kill it, or a part, whose end is the other's, too; wait until nothing can be committed any more."""
        if part == "java":
            (java,) = [pid for pid in children(self.session) if _is_java(pid)]
            os.kill(java, signal.SIGKILL)
        else:
            for pid in living(self.session) if part == "all" else [self.session]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait(END_SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def told(self) -> Any:
        """Wait for its end, and return what it has found."""
        assert self._process.wait(END_SECONDS_MAX) == 0, self.said
        return json.loads(self._told.read_text())

    def is_gone(self) -> bool:
        """Wait until none of its processes is there any more; tell whether that has come."""
        deadline = time.monotonic() + GONE_SECONDS_MAX
        while (left := living(self.session)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return not left


def _is_java(pid: int) -> bool:
    return (Path("/proc") / str(pid) / "comm").read_text() == "java\n"
