import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing.postgres import find_programs, guard


def test_programs_on_the_path_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "initdb"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_programs() == tmp_path


def test_guarded_process_ends_with_its_guardian() -> None:
    """Its guardian is this test here: the pipe that only it holds is closed for it when it dies."""
    program = [sys.executable, "-c", "input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as guarded, guard(guarded.pid) as guardian:
        assert guarded.poll() is None
        assert guardian.stdin

        guardian.stdin.close()

        assert guarded.wait(300) == -signal.SIGQUIT
