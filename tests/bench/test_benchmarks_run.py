"""The benchmarks run; `make bench` and `make bench-peers` tell their results.

These are in one file, so that they run one after the other: they look at what is left in build/.
"""

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
from bench.peers.peers import PEER_LIST
from bench.peers.workloads import WORKLOADS
from bench.results import write_pages
from tests.bench.processes import marked
from tests.exhaustive import exhaustive

ROOT = Path(__file__).parent.parent.parent


def run_bench(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_bench_peers(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench.peers", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bench_lists_its_figures() -> None:
    listed = run_bench("--quick", "--list")

    assert "feed-read" in listed
    assert "held-transaction" in listed


def test_benchmarks_pages_are_written_from_the_results(tmp_path: Path) -> None:
    write_pages(tmp_path)

    written = {page.relative_to(tmp_path): page.read_text() for page in tmp_path.rglob("*.md")}
    kept = [ROOT / "docs" / "benchmarks.md", *(ROOT / "docs" / "benchmarks").glob("*.md")]
    assert written == {page.relative_to(ROOT / "docs"): page.read_text() for page in kept}
    assert len(FIGURES) > 20


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("figure", "row"),
    [
        ("arrow", "Arrow beside NDJSON"),
        ("cached-history", "nginx's cache beside nginx serving files"),
        ("cold", "a feed as Arrow: sealed beside in the database"),
        ("fairness", "beside a caller that publishes batches of 20000"),
        ("replicas", "history, in pages of 1000: reads that reach the primary"),
    ],
)
def test_quick_figure_runs_and_writes_no_results(figure: str, row: str) -> None:
    before = pages()

    said = run_bench("--quick", figure)

    assert row in said
    assert pages() == before


@pytest.mark.exhaustive
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


def test_peers_benchmark_lists_peers_and_workloads() -> None:
    listed = run_bench_peers("--list")

    assert all(peer.name in listed for peer in PEER_LIST)
    assert all(name in listed for name in WORKLOADS)


@pytest.mark.exhaustive
def test_quick_run_of_penstock_and_the_bare_app_measures_and_writes_no_results() -> None:
    before = pages()

    said = run_bench_peers("penstock-sqlite", "bare-app", "--quick", "--workloads", "single-32", "batches-1", "read")

    assert said.count("single events, 32 writers") == 2
    assert said.count("read a log in pages of 1000") == 1
    assert pages() == before


@pytest.mark.parametrize("name", [exhaustive(peer.name) for peer in PEER_LIST])
def test_peer_has_all_its_workloads(name: str) -> None:
    [peer] = [each for each in PEER_LIST if each.name == name]

    said = run_bench_peers(name, "--quick")

    assert len(said.splitlines()) == 1 + len(peer.workloads)
    assert peer.find_version()


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGTERM, exhaustive(signal.SIGINT), exhaustive(signal.SIGKILL)])
def test_stopped_benchmark_leaves_no_server_of_a_peer(number: int) -> None:
    mark = str(uuid4())  # In the environment of whatever the benchmark starts.
    places = set((ROOT / "build").glob("bench-*"))
    command = [sys.executable, "-m", "bench.peers", "--quick", "nginx"]
    environment = os.environ | {"BENCH_MARK": mark}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as running:
        while not (guarded := find_guarded(mark)):
            time.sleep(0.02)
            assert running.poll() is None
        running.send_signal(number)
        status = running.wait(300)

    assert status != 0
    while number == signal.SIGKILL and (marked(mark) or is_there(guarded[0])):
        time.sleep(0.05)
    assert marked(mark) == []
    assert not is_there(guarded[0])
    left = set((ROOT / "build").glob("bench-*")) - places
    assert bool(left) == (number == signal.SIGKILL)
    for place in left:
        shutil.rmtree(place)


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


def find_guarded(mark: str) -> list[int]:
    """Return the servers' process ids. nginx itself does not keep the mark, but the process that guards it does."""
    return [int(line.split()[-1]) for line in marked(mark) if line.startswith("sh -c read")]


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def pages() -> list[bytes]:
    docs = ROOT / "docs"
    written = [docs / "benchmarks.md", docs / "choosing.md", *sorted((docs / "benchmarks").glob("*.md"))]
    return [page.read_bytes() for page in written]
