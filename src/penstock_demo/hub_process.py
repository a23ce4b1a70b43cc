"""A hub in a process of its own, which ends with the process that started it, however that ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.cli.failures import CommandFailure

START_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 15.0
LAST_LINES: Final = 3
"""Maximum number of lines of its log that are shown if a hub has ended without a reason."""


class HubProcess:
    """A hub on *database*, on a free loopback port, for as long as the block runs.

    Args:
        database: Its URL.
        log: The file that its log is written to.
        held: File descriptors that it keeps open until it has ended, so that locks on them last as long.
        options: Further ones of `penstock serve`.
    """

    def __init__(self, database: str, log: Path, held: tuple[int, ...] = (), options: Sequence[str] = ()) -> None:
        self._database = database
        self._options = options
        self._log = log
        self._held = held
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        """Start the hub and wait until it answers.

        Raises:
            CommandFailure: it ended, or did not answer in time; says why.
        """
        program = [sys.executable, "-m", "penstock", "serve", "--while-stdin", "--database", self._database]
        program += ["--host", "127.0.0.1", "--port", "0", "--migrate", "--log-format", "json", "--log-level", "info"]
        program += self._options
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=self._held,
                start_new_session=True,  # Ctrl-C is for us; we then stop it, once nobody needs it.
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        try:
            while not (url := self._announced()):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise self._failure()
                time.sleep(0.02)
        except BaseException:
            self.stop()
            raise
        self.url = url
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait(self) -> None:
        """Wait until the hub ends, or until Ctrl-C.

        Raises:
            CommandFailure: the hub has ended by itself.
        """
        assert self._process is not None, "the hub has been started"
        try:
            self._process.wait()
        except KeyboardInterrupt:
            return
        raise CommandFailure("the hub has ended", f"Its log is in {self._log}.")

    def stop(self) -> None:
        """End the hub and wait until it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _failure(self) -> CommandFailure:
        """Say that the hub did not start, with the reason that it has given itself, else with the end of its log."""
        said = [line for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        reasons = [line.removeprefix("penstock: ") for line in said if line.startswith("penstock: ")]
        detail = f"the hub on {self._database} did not start"
        if reasons:
            return CommandFailure(f"{detail}: {reasons[-1]}", f"Its log is in {self._log}.")
        last = said[-LAST_LINES:] or ["nothing"]
        return CommandFailure(detail, "\n".join([f"The last that it has said, in {self._log}:", *last]))

    def _announced(self) -> str | None:
        for line in self._log.read_bytes().splitlines(keepends=True):
            if b'"serving"' in line and line.endswith(b"\n"):
                return str(json.loads(line)["url"])
        return None
