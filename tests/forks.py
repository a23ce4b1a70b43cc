"""Runs commands in processes of their own, forked from one that has loaded everything, which takes most of the time.

Such a process is as any other but for its beginning: it has its own directory, environment and streams, and ends as
`python -m penstock` ends.
"""

import array
import atexit
import contextlib
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from tests.times import use_times

PYTHON: Final = "python"
"""The first argument of a command that is a Python program, and not `penstock`."""
TRIED: Final = (
    ("event-type", "list", "--url", "http://127.0.0.1:1", "--output", "json"),
    ("migrate", "--database", "sqlite:///tried.db", "--output", "json"),
    ("rejected", "list", "--database", "sqlite:///tried.db", "--output", "json"),
    ("serve", "--host", "0.0.0.0"),  # It is refused, when the server is loaded.
)
REQUEST_BYTES_MAX: Final = 1_000_000
NUMBER_BYTES: Final = 4


class Fork:
    """A process that was forked, which is waited for as for one of `subprocess`."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self.pid = _number(told)
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its status if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its status.

        Raises:
            subprocess.TimeoutExpired: That takes more than *timeout* seconds.
        """
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = _number(self._told)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("a forked process", timeout or 0) from None
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it is still there."""
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[bytes, bytes]:
        """Close its input, wait for its end, and return what it has written to its pipes."""
        assert self.stdout
        assert self.stderr
        if self.stdin:
            self.stdin.close()
        with ThreadPoolExecutor(1) as threads:
            errors = threads.submit(self.stderr.read)
            found = self.stdout.read(), errors.result()
        self.wait()
        return found

    def close(self) -> None:
        """Kill it, wait for its end, and close its pipes."""
        self.kill()
        self.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Forks:
    """The process that forks. It ends with the one that has started it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes]
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def start(
        self, arguments: list[str], directory: Path, environment: Mapping[str, str], streams: list[IO[bytes]]
    ) -> Fork:
        """Start the command with *streams* for its input, output and errors."""
        given = {"arguments": arguments, "directory": str(directory), "environment": dict(environment)}
        request = json.dumps(given).encode()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            socket.send_fds(self._started(), [request], [*(stream.fileno() for stream in streams), theirs.fileno()])
        return Fork(ours)

    def run(
        self,
        arguments: list[str],
        directory: Path,
        environment: Mapping[str, str],
        streams: list[IO[bytes]],
        timeout: float,
    ) -> int:
        """Run the command to its end; return its status. What takes longer than *timeout* does not stay."""
        fork = self.start(arguments, directory, environment, streams)
        try:
            return fork.wait(timeout)
        finally:
            fork.kill()

    def hub(self, arguments: Sequence[str], output: IO[bytes]) -> Fork:
        """Start `penstock` as `LiveHub.start_penstock` does."""
        ours, theirs = os.pipe()
        with os.fdopen(ours, "rb") as stdin:
            fork = self.start([*arguments], Path.cwd(), os.environ, [stdin, output, output])
        fork.stdin = os.fdopen(theirs, "wb")
        return fork

    def with_pipes(
        self, arguments: list[str], directory: Path, environment: Mapping[str, str], *, has_input: bool
    ) -> Fork:
        """Start the command with pipes for its output and errors, and for its input, which is empty else."""
        (their_output, our_output), (their_errors, our_errors) = (os.pipe()[::-1] for _ in range(2))
        their_input, our_input = os.pipe()
        with contextlib.ExitStack() as theirs:
            streams: list[IO[bytes]] = [theirs.enter_context(os.fdopen(their_input, "rb"))]
            streams += [theirs.enter_context(os.fdopen(each, "wb")) for each in (their_output, their_errors)]
            fork = self.start(arguments, directory, environment, streams)
        fork.stdin = os.fdopen(our_input, "wb")
        if not has_input:
            fork.stdin.close()
        fork.stdout, fork.stderr = os.fdopen(our_output, "rb"), os.fdopen(our_errors, "rb")
        return fork

    def python(self, arguments: Sequence[str], directory: Path, errors: IO[bytes]) -> Fork:
        """Start `python -W error` with `-c TEXT`, `-m MODULE` or a file, and pipes for its input and output."""
        (their_input, our_input), (our_output, their_output) = os.pipe(), os.pipe()
        with os.fdopen(their_input, "rb") as stdin, os.fdopen(their_output, "wb") as stdout:
            fork = self.start([PYTHON, *arguments], directory, os.environ, [stdin, stdout, errors])
        fork.stdin, fork.stdout = os.fdopen(our_input, "wb"), os.fdopen(our_output, "rb")
        return fork

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                words = [sys.executable, "-m", "tests.forks", str(theirs.fileno())]
                root = Path(__file__).parents[1]
                self._process = subprocess.Popen(words, cwd=root, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        return self._socket

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
                self._process.wait(10)


def _number(told: socket.socket) -> int:
    found = told.recv(NUMBER_BYTES)
    if not found:
        raise ChildProcessError("the process that forks has ended: see its errors above")
    return array.array("i", found)[0]


def _tell(told: int, number: int) -> None:
    with contextlib.suppress(OSError):  # Nobody may be there to be told any more.
        os.write(told, array.array("i", [number]).tobytes())


FORKS: Final = Forks()
"""One for each process of the test run."""


def serve(requests: socket.socket, *, until: int | None = None) -> None:
    """Fork for each request; in the forked process, return. End with the requests, or when the file *until* ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: dict[int, tuple[int, int]] = {}
    """By a file that is ready when a command has ended: its process, and where its end is told."""
    while True:
        ready = select.select([requests.fileno(), *([] if until is None else [until]), *running], [], [])[0]
        for file in running.keys() & ready:
            command, told = running.pop(file)
            _, status = os.waitpid(command, 0)
            _tell(told, os.waitstatus_to_exitcode(status))
            os.close(file)
            os.close(told)
        if until in ready:
            sys.exit()
        if requests.fileno() not in ready:
            continue
        request, files, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 4)
        if not request:
            sys.exit()
        *streams, told = files
        command = os.fork()
        if command == 0:
            requests.close()
            for file, (_, other) in running.items():
                os.close(file)
                os.close(other)
            os.close(told)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            become(json.loads(request), streams)
            return
        running[os.pidfd_open(command)] = command, told
        _tell(told, command)
        for stream in streams:
            os.close(stream)


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Have this process be what the request asks for."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    use_times()
    sys.argv = ["penstock", *request["arguments"]]
    sys.modules["__main__"].__package__ = None  # Else usage would tell of this module.
    sys.path[0] = request["directory"]
    sys.stdin = _text(0, "r")
    sys.stdout = _text(1, "w")
    sys.stderr = _text(2, "w")


def _text(number: int, mode: str) -> Any:
    raw = io.FileIO(number, mode, closefd=False)
    if mode == "r":
        return io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")
    is_errors = number == 2
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8",
        errors="backslashreplace" if is_errors else "strict",
        line_buffering=is_errors,
    )


def run_python(program: str, *arguments: str) -> None:
    """Run a program as `python` does, in a main module of its own."""
    if program == "-c":
        text, *sys.argv[1:] = arguments
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(text, "<string>", "exec"), module.__dict__)
    elif program == "-m":
        name, *sys.argv[1:] = arguments
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv[1:] = arguments
        runpy.run_path(program, run_name="__main__")


def main() -> NoReturn:
    """Load everything, fork, and in what was forked run the command."""
    import psycopg  # noqa: F401 - That is all.
    import uvloop  # noqa: F401

    import penstock.processing
    from penstock.cli.contents import CONTENTS, load_command
    from penstock.cli.start import main as run
    from penstock.server import HubApp

    for name in CONTENTS:
        load_command(name)
    for name in penstock.processing.__all__:
        getattr(penstock.processing, name)
    [file] = sys.argv[1:]
    with tempfile.TemporaryDirectory() as nothing:
        for words in TRIED:  # What is loaded late is loaded by now, too.
            sys.argv = ["penstock", *words]
            quiet = io.StringIO()
            with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), contextlib.suppress(SystemExit):
                os.chdir(nothing)
                run()
        HubApp("sqlite:///tried.db", is_local=True)  # What its routes and files are is kept.
        os.chdir("/")
    gc.freeze()  # Else the first search for garbage would copy all of it.
    with socket.socket(fileno=int(file)) as requests:
        serve(requests)
    try:
        if sys.argv[1:2] == [PYTHON]:
            warnings.simplefilter("error")
            run_python(*sys.argv[2:])
        else:
            run()
        status: Any = 0
    except SystemExit as ending:
        status = 0 if ending.code is None else ending.code
    leave(status)


def leave(status: Any) -> NoReturn:
    """End as `sys.exit` does, but without emptying all modules, which would first copy all that was loaded."""
    if isinstance(status, int):
        with contextlib.suppress(OSError, KeyboardInterrupt):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            if (program := vars(sys.modules["__main__"])) is not globals():
                program.clear()  # Files that it leaves open are warned of.
            gc.collect()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status & 0xFF)
    sys.exit(status)


if __name__ == "__main__":
    main()
