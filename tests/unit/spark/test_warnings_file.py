import logging
import subprocess
import sys
from pathlib import Path

from penstock.spark.warnings_file import VARIABLE

WARNS = "import logging, penstock.spark; log = logging.getLogger('penstock.spark'); log.info('i'); log.warning('%s', 7)"


def warn_in_process(**environment: str) -> str:
    """Return what a process that warns says on stderr."""
    return subprocess.run(
        [sys.executable, "-c", WARNS], env=environment, capture_output=True, check=True, text=True
    ).stderr


def test_a_process_warns_on_stderr_and_in_the_file_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "warnings"
    file.write_text("before\n")

    assert warn_in_process(**{VARIABLE: str(file)}) == "7\n"
    assert file.read_text() == "before\n7\n"


def test_elsewhere_warnings_go_where_logging_has_them_go() -> None:
    assert warn_in_process() == "7\n"
    assert not logging.getLogger("penstock.spark").handlers
