"""Every program of docs/guides/consuming.md runs as it stands there, against a live hub."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, Block, blocks

PROGRAMS = [block for block in blocks(ROOT / "docs" / "guides" / "consuming.md") if block.language == "python"]
ON_TERMINATION = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub as the guide expects it."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=4)
        client.publish("order.placed", ({"order_id": n, "total": "19.90"} for n in range(40)))
        yield hub


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"line {program.line}")
def test_a_program_of_the_guide_runs(
    program: Block, hub: LiveHub, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = program.text.replace("localhost:8080", f"127.0.0.1:{hub.port}")
    if "postgresql:///billing" in text:
        text = text.replace("postgresql:///billing", request.getfixturevalue("postgres_url"))

    command = [sys.executable, "-W", "error", "-c", ON_TERMINATION + text]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.readline()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)  # One that does not end by itself waits for events by then.
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)

    assert printed, errors
    assert process.returncode in {0, -signal.SIGTERM}, errors  # The latter if it was about to end by itself.
    assert not errors


def test_the_guide_has_programs() -> None:
    assert len(PROGRAMS) > 5
