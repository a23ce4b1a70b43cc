"""The examples of a page: commands, and what the page says that they answer."""

import json
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
_ON_TERMINATION = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_LAG = re.compile(r'("lag_seconds":) *[\d.]+')


class Block(NamedTuple):
    """A block of code on a page."""

    line: int
    language: str
    text: str


class Answer(NamedTuple):
    """What HTTP answers, as far as a page shows it."""

    status: str
    headers: dict[str, str]
    body: Any


def blocks(page: Path) -> list[Block]:
    """Return the blocks of code on *page*, in their order."""
    text = page.read_text(encoding="utf-8")
    return [Block(text[: match.start()].count("\n") + 1, match[1], match[2]) for match in _BLOCK.finditer(text)]


def run(block: Block, *, port: int, directory: Path) -> str:
    """Run *block* as it stands, but for the hub's port, and return what it printed."""
    programs = {"sh": ["bash", "-o", "pipefail", "-c"], "python": [sys.executable, "-W", "error", "-c"]}
    command = [*programs[block.language], block.text.replace("localhost:8080", f"localhost:{port}")]
    done = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"line {block.line}: {done.stderr}"
    return done.stdout


def run_until_it_waits(text: str, directory: Path) -> str:
    """Run the program *text* until it ends or has nothing more to read, and return what it printed."""
    command = [sys.executable, "-W", "error", "-c", _ON_TERMINATION + text]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = process.stdout.readline()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)  # One that does not end by itself waits for events by then.
        process.send_signal(signal.SIGTERM)
        printed += process.stdout.read()  # Not `communicate`, which leaves out what was read ahead with the first line.
        errors = process.stderr.read()
        process.wait(timeout=30)

    assert printed, errors
    assert process.returncode in {0, -signal.SIGTERM}, errors  # The latter if it was about to end by itself.
    assert not errors
    return printed


def parse_answer(text: str) -> Answer:
    """Read an answer as `curl -i` prints it; JSON is compared by what it says, lines as they are."""
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    status, *lines = head.strip().split("\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = steady(body.strip())
    is_lines = headers.get("content-type", "").endswith(("ndjson", "json-stream"))
    is_json = body.startswith(("{", "[")) and not is_lines
    return Answer(steady(status), headers, json.loads(body) if is_json else body)


def steady(text: str) -> str:
    """Replace what differs from run to run, and from one Python to the next (names of statuses)."""
    text = text.replace("Unprocessable Content", "Unprocessable Entity")
    text = text.replace("Request Entity Too Large", "Content Too Large")
    return _LAG.sub(r'\1 "<lag>"', _TIME.sub("<time>", text))
