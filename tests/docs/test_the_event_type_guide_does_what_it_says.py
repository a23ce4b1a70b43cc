"""docs/guides/event-types.md from its top to its end: its file, its changes, and what its commands answer."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, Block, blocks

GUIDE = ROOT / "docs" / "guides" / "event-types.md"
DEFINITION = "order-placed.yaml"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub:
        yield hub


def test_the_guide_does_what_it_says(hub: LiveHub, tmp_path: Path) -> None:
    for block in blocks(GUIDE):
        if block.language == "yaml":
            (tmp_path / DEFINITION).write_text(block.text, encoding="utf-8")
        elif block.language == "diff":
            change(tmp_path / DEFINITION, block)
        elif block.language == "console":
            commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
            answers = [answer(command, hub, tmp_path) for command, _ in commands]
            assert list(map(ruled, answers)) == [ruled(text) for _, text in commands], f"line {block.line}"


def test_the_guide_has_a_file_its_changes_and_commands() -> None:
    languages = [block.language for block in blocks(GUIDE)]
    assert (languages.count("yaml"), languages.count("diff"), languages.count("console")) == (1, 6, 10)


def change(file: Path, block: Block) -> None:
    """Make the change that *block* shows: its lines without + are there, once."""
    lines = block.text.splitlines(keepends=True)
    before, after = ("".join(line[1:] for line in lines if line[0] in f" {sign}") for sign in "-+")
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"line {block.line}: what is to change is not in {file.name}"
    file.write_text(text.replace(before, after), encoding="utf-8")


def ruled(text: str) -> str:
    """Return *text* with a table's rule of one length, which is the page's width."""
    return re.sub("─+", "─", text)


def answer(command: str, hub: LiveHub, directory: Path) -> str:
    """Return what *command* prints, without spaces at the ends of lines and empty lines of tables."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PENSTOCK_URL": hub.url,
    }
    done = subprocess.run(
        ["bash", "-c", command.replace("http://localhost:8080", hub.url)],
        cwd=directory,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    lines = [line.rstrip() for line in done.stdout.replace(hub.url, "http://localhost:8080").splitlines()]
    return "".join(f"{line}\n" for line in lines if line)
