"""The README's quick start does what it says, typed as it stands there."""

import ast
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from penstock.client import Client
from penstock.errors import RequirementMissing
from penstock.spark.laptop import check_java
from penstock.testing.live_hub import live_hub
from penstock.testing.port import free_port
from tests.docs.examples import ROOT, Block, blocks, run

README = ROOT / "README.md"


def test_the_quick_start_commits_an_order_and_reads_its_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve, create, commit, read, shown = quick_start()
    port = free_port()
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PENSTOCK_PORT", str(port))
    monkeypatch.setenv("PENSTOCK_URL", f"http://localhost:{port}")
    hub = subprocess.Popen(["bash", "-c", f"exec {serve.text}"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        await_answer(hub, port)
        run(create, port=port, directory=tmp_path)
        run(commit, port=port, directory=tmp_path)
        printed = run(read, port=port, directory=tmp_path)
    finally:
        hub.terminate()
        status = hub.wait(timeout=30)

    assert printed == shown.text
    assert status == 0


def test_the_quick_start_has_ten_lines() -> None:
    serve, create, commit, read, _ = quick_start()
    statements = len(ast.parse(commit.text).body[-1].body) + len(ast.parse(commit.text).body)

    assert sum(block.text.count("\n") for block in (serve, create, read)) + statements <= 10


def test_the_spark_line_shows_the_event(sqlite_url: str, tmp_path: Path) -> None:
    [line] = [block for block in blocks(README) if "format(" in block.text]
    try:
        check_java(os.environ)
    except RequirementMissing as missing:
        pytest.skip(str(missing))
    program = f"from penstock.spark.laptop import session\nspark = session()\n{line.text}"

    with live_hub(sqlite_url) as hub, Client(hub.url) as client:
        client.create_event_type("order.placed")
        client.publish("order.placed", {"order_id": 7, "customer": "Ada"})
        printed = run(line._replace(text=program), port=hub.port, directory=tmp_path)

    assert '{"order_id":7' in printed


def test_the_first_commands_are_tasks_of_the_makefile() -> None:
    first = blocks(README)[0]
    tasks = [line.split()[1] for line in first.text.splitlines()]
    listed = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout

    assert tasks == ["demo", "test"]
    assert all(f"make {task} " in listed for task in tasks)


@pytest.mark.parametrize("line", [0, 1])
def test_a_service_of_its_own_gets_penstock_as_shown(line: int, tmp_path: Path) -> None:
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
    extras = next((tmp_path / "site").glob("penstock-*.dist-info/METADATA")).read_text()
    assert {"Provides-Extra: postgres", "Provides-Extra: spark"} <= set(extras.splitlines())


def quick_start() -> list[Block]:
    """Return the blocks from `penstock serve` to what the feed shows."""
    return blocks(README)[1:6]


def await_answer(hub: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urlopen(f"http://localhost:{port}/health/ready", timeout=1):
                return
        except (URLError, OSError):
            assert hub.poll() is None, "the hub has ended"
            assert time.monotonic() < deadline, "the hub does not answer"
            time.sleep(0.02)
