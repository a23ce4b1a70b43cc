"""docs/guides/event-types.md from top to end: its file, its changes, and the output of its commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.cli.command import Command, clean_environment
from tests.docs.examples import ROOT, Block, blocks

GUIDE = ROOT / "docs" / "guides" / "event-types.md"
DEFINITION = "order-placed.yaml"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub:
        yield hub


def test_commands_of_the_guide_print_the_shown_output(hub: LiveHub, tmp_path: Path) -> None:
    for block in blocks(GUIDE):
        if block.language == "yaml":
            (tmp_path / DEFINITION).write_text(block.text, encoding="utf-8")
        elif block.language == "diff":
            change(tmp_path / DEFINITION, block)
        elif block.language == "console":
            commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
            answers = [answer(command, hub, tmp_path) for command, _ in commands]
            assert list(map(ruled, answers)) == [ruled(text) for _, text in commands], f"line {block.line}"


def test_guide_has_a_file_with_changes_and_commands() -> None:
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
    penstock = Command(directory, clean_environment()).at(hub.url)
    said, _, pipe = command.replace("http://localhost:8080", hub.url).rpartition("echo ")[2].partition(" | ")
    [given], words = (shlex.split(said), shlex.split(pipe)) if pipe else ([""], shlex.split(said))
    words, grep = (words[: words.index("|")], words[-1]) if "|" in words else (words, "")
    done = penstock(*words[1:], stdin=given)
    printed = (done.out + done.err).replace(hub.url, "http://localhost:8080").splitlines()
    lines = [line.rstrip() for line in printed if grep in line]
    return "".join(f"{line}\n" for line in lines if line)
