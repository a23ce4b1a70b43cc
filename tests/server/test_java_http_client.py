"""The HTTP client of the JDK, whose default settings ask every cleartext server to upgrade to HTTP/2."""

import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from penstock.testing.live_hub import LiveHub
from tests.java import HASTE

PROGRAM = Path(__file__).with_name("PublishAndRead.java")


def test_java_program_with_default_settings_publishes_and_reads(sqlite_hub: LiveHub) -> None:
    java = shutil.which("java")
    if java is None:
        pytest.skip("no `java` on the path: install a JDK of version 17 or later")

    command = [java, *HASTE, str(PROGRAM), sqlite_hub.url, f"test.{uuid.uuid4().hex}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "published and read 1000 events\n"
