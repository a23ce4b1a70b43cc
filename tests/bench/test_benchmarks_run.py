"""That the benchmarks run; what they find is for `make bench` to say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def bench(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_figures_are_listed() -> None:
    listed = bench("--quick", "--list")

    assert "feed-read" in listed
    assert "held-transaction" in listed


def test_a_quick_figure_runs_and_writes_nothing() -> None:
    page = ROOT / "docs" / "benchmarks.md"
    before = page.read_bytes() if page.exists() else None

    said = bench("--quick", "arrow")

    assert "Arrow beside NDJSON" in said
    assert (page.read_bytes() if page.exists() else None) == before
