"""The README's commands do what it says; `tests/test_distribution.py` runs its quick start."""

import ast
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import README, ROOT, blocks, quick_start
from tests.exhaustive import exhaustive


def test_quick_start_has_twelve_lines() -> None:
    commit = ast.parse(quick_start()[2].text).body
    statements = len(commit) + len(commit[-1].body)  # type: ignore[attr-defined]  # It is a `with`.

    assert sum(block.text.count("\n") for block in quick_start() if block.language == "sh") + statements <= 12


def test_make_commands_are_tasks_of_the_makefile() -> None:
    [make] = [block for block in blocks(README) if block.text.startswith("make ")]
    tasks = [line.split()[1] for line in make.text.splitlines()]
    listed = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout

    assert tasks == ["demo", "test"]
    assert all(f"make {task} " in listed for task in tasks)


@pytest.mark.parametrize("line", [0, exhaustive(1)], ids=["path", "git"])
def test_service_installs_penstock_as_shown(line: int, tmp_path: Path) -> None:
    [shown] = [block for block in blocks(README) if "pip install" in block.text]
    command = shlex.split(shown.text.splitlines()[line])
    wanted = (
        command[2]
        .replace("/path/to/penstock", str(ROOT))
        .replace("https://host.example/penstock.git", f"file://{ROOT}")
    )
    assert str(ROOT) in wanted
    # Its requirements are here already, and what builds it too: nothing is loaded from the network.
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(tmp_path / "site")]

    subprocess.run([sys.executable, "-m", *command[:2], *offline, wanted], check=True, cwd=tmp_path)
    program = "import penstock.outbox; print(penstock.outbox.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path / "site"
    )

    assert found.stdout.startswith(str(tmp_path / "site"))
    extras = next((tmp_path / "site").glob("penstock_hub-*.dist-info/METADATA")).read_text()
    assert {"Provides-Extra: postgres", "Provides-Extra: spark"} <= set(extras.splitlines())
