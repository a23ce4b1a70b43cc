"""The benchmarks run; `make bench` tells their results."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

import bench.figures  # noqa: F401 - it registers the figures
from bench.figure import FIGURES
from bench.results import write_page
from tests.exhaustive import exhaustive

ROOT = Path(__file__).parent.parent.parent


def run_bench(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bench_lists_its_figures() -> None:
    listed = run_bench("--quick", "--list")

    assert "feed-read" in listed
    assert "held-transaction" in listed


def test_benchmarks_page_is_written_from_the_results(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    write_page(page)
    assert page.read_text() == (ROOT / "docs" / "benchmarks.md").read_text()
    assert len(FIGURES) > 20


def test_quick_figure_runs_and_writes_no_results() -> None:
    page = ROOT / "docs" / "benchmarks.md"
    before = page.read_bytes() if page.exists() else None

    said = run_bench("--quick", "arrow")

    assert "Arrow beside NDJSON" in said
    assert (page.read_bytes() if page.exists() else None) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, exhaustive(signal.SIGINT), exhaustive(signal.SIGKILL)])
def test_stopped_benchmark_leaves_no_processes_and_files(number: int) -> None:
    mark = str(uuid4())  # In the environment of whatever the benchmark starts.
    places = set((ROOT / "build").glob("bench-*"))
    command = [sys.executable, "-m", "bench", "--quick", "feed-read"]
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"BENCH_MARK": mark}, stdout=subprocess.DEVNULL
    ) as running:
        while not any(listens(line) for line in marked(mark)):
            time.sleep(0.05)
            assert running.poll() is None
        running.send_signal(number)
        status = running.wait(300)

    assert status != 0
    left = set((ROOT / "build").glob("bench-*")) - places
    if number == signal.SIGKILL:  # Then nobody is left to tidy up, but the hub ends all the same.
        while marked(mark):
            time.sleep(0.05)
        for place in left:
            shutil.rmtree(place)
    else:
        assert marked(mark) == []
        assert not left


def listens(command: str) -> bool:
    """Tell whether the hub that was started by *command* takes connections."""
    port = re.search(r"penstock serve .*--port (\d+)", command)
    if port is None:
        return False
    try:
        socket.create_connection(("127.0.0.1", int(port[1]))).close()
    except OSError:
        return False
    return True


def marked(mark: str) -> list[str]:
    """Return the command lines of the processes that bear the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # It has just ended, or is not ours.
    return found
