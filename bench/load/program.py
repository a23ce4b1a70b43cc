"""Runs a load in a process of its own, told by lines of JSON what to do and answering in the same way."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

ROOT = Path(__file__).parent.parent.parent
Run = Callable[..., Any]


class Program:
    """A load at the other end of a pipe. It is ready, connections made, when this has been built."""

    python: ClassVar[str] = sys.executable

    def __init__(self, module: str, **given: Any) -> None:
        self._module = module
        command = [self.python, "-m", module, json.dumps(given)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1, cwd=ROOT
        )
        try:
            assert self.result() == "ready"
        except BaseException:  # We may be told to stop meanwhile.
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def start(self, **asked: Any) -> None:
        """Have it run once; `result` waits for the end."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")

    def result(self) -> Any:
        """Return what the run gave.

        Raises:
            RuntimeError: the process has ended instead; what it said went to the standard error.
        """
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"{self._module} ended with {self._process.wait()}")
        return json.loads(said)

    def __call__(self, **asked: Any) -> Any:
        """Run once and return the result."""
        self.start(**asked)
        return self.result()


def together(programs: list[Program], **asked: Any) -> list[Any]:
    """Run all at the same time."""
    for program in programs:
        program.start(**asked)
    return [program.result() for program in programs]


def serve(make: Callable[..., Run]) -> None:
    """Be the program: prepare by what the command line gives, then run as often as asked."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # Whatever else is printed, by a JVM for one, is no answer.
        run = make(**json.loads(sys.argv[1]))
        print(json.dumps("ready"), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(run(**json.loads(line))), file=answers, flush=True)
