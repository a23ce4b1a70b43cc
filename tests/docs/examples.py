"""The examples of a page: commands and their shown answers."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.forks import FORKS, PYTHON, Fork

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
_ON_TERMINATION = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RECEIVED = re.compile(r'("received_at":)(?:\[[\d,]+\]|\d+)')
_RETRY = re.compile(r"^(retry:) \d+$", re.MULTILINE)
_LAG = re.compile(r'("(?:consumer_)?lag_seconds":) *[\d.]+')


class Block(NamedTuple):
    """A block of code on a page."""

    line: int
    language: str
    text: str


class Answer(NamedTuple):
    """An answer of HTTP, as far as a page shows it."""

    status: str
    headers: dict[str, str]
    body: Any


def blocks(page: Path) -> list[Block]:
    """Return the blocks of code on *page*, in their order."""
    text = page.read_text(encoding="utf-8")
    return [Block(text[: match.start()].count("\n") + 1, match[1], match[2]) for match in _BLOCK.finditer(text)]


def quick_start() -> list[Block]:
    """Return the README's blocks from `penstock serve` to the shown consumer groups."""
    return blocks(README)[:7]


def run(block: Block, *, port: int, directory: Path, python: str = sys.executable) -> str:
    """Run *block* as it stands, but for the hub's port, and return what it printed.

    A program for the Python that runs now is forked from one that has loaded Penstock.
    """
    if block.language == "python" and python == sys.executable:
        with forked(block.text.replace("localhost:8080", f"localhost:{port}"), directory) as process:
            out, errors = process.communicate()
            assert process.returncode == 0, f"line {block.line}: {errors.decode()}"
            return out.decode()
    programs = {"sh": ["bash", "-o", "pipefail", "-c"], "python": [python, "-W", "error", "-c"]}
    command = [*programs[block.language], block.text.replace("localhost:8080", f"localhost:{port}")]
    done = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, f"line {block.line}: {done.stderr}"
    return done.stdout


def run_until_it_waits(text: str, directory: Path) -> str:
    """Run the program *text* until it ends or has nothing more to read, and return what it printed."""
    with forked(_ON_TERMINATION + text, directory) as process:
        assert process.stdout is not None
        printed = process.stdout.readline().decode()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)  # One that does not end by itself waits for events by then.
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate()
        printed += rest.decode()

    assert printed, errors.decode()
    assert process.returncode in {0, -signal.SIGTERM}, errors.decode()  # The latter if it was about to end by itself.
    assert not errors
    return printed


@contextmanager
def forked(text: str, directory: Path) -> Iterator[Fork]:
    """Run the program *text* as `python -W error` does, with pipes, for as long as the block runs."""
    process = FORKS.with_pipes([PYTHON, "-c", text], directory, os.environ, has_input=False)
    try:
        yield process
    finally:
        process.close()


def parse_answer(text: str) -> Answer:
    """Parse an answer as `curl -i` prints it: JSON to its value, lines as they are."""
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    status, *lines = head.strip().split("\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = steady(body.strip())
    is_lines = headers.get("content-type", "").endswith(("ndjson", "json-stream"))
    is_json = body.startswith(("{", "[")) and not is_lines
    return Answer(steady(status), headers, json.loads(body) if is_json else body)


class Ids:
    """The ids that a hub makes up, each under that by which a page shows it."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def asked(self, block: Block) -> Block:
        """Return *block* with the hub's ids for those of the page."""
        made = {shown: made for made, shown in self._shown.items()}
        return block._replace(text=_ID.sub(lambda match: made.get(match[0], match[0]), block.text))

    def as_shown(self, printed: str, shown: Block) -> str:
        """Return what was *printed* with the page's ids for the hub's; a new one stands where *shown* has one."""
        pairs = (
            [(shown.text, printed)] if shown.language == "text" else _twins(*map(parse_answer, (shown.text, printed)))
        )
        for says, does in pairs:
            for known, made in zip(_ID.findall(says), _ID.findall(does), strict=False):
                if known not in self._shown.values():
                    self._shown.setdefault(made, known)
        return _ID.sub(lambda match: self._shown.get(match[0], match[0]), printed)


def _twins(says: Any, does: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts that stand at the same place of two answers."""
    if isinstance(says, dict) and isinstance(does, dict):
        for name in says.keys() & does.keys():
            yield from _twins(says[name], does[name])
    elif isinstance(says, list | tuple) and isinstance(does, list | tuple):
        for pair in zip(says, does, strict=False):
            yield from _twins(*pair)
    elif isinstance(says, str) and isinstance(does, str):
        yield says, does


def steady(text: str) -> str:
    """Replace what differs from run to run, and from one Python to the next (names of statuses)."""
    text = text.replace("Unprocessable Content", "Unprocessable Entity")
    text = text.replace("Request Entity Too Large", "Content Too Large")
    text = _RETRY.sub(r"\1 <milliseconds>", text)
    return _RECEIVED.sub(r'\1 "<times>"', _LAG.sub(r'\1 "<lag>"', _TIME.sub("<time>", text)))
