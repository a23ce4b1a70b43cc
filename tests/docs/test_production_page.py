"""The commands of docs/guides/production.md, one step after the other: TLS, tokens, alarms and a backup."""

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from penstock.testing.port import free_port
from tests.docs.examples import ROOT, blocks
from tests.promises.scene import until
from tests.server.authentication.authority import Authority

PAGE = ROOT / "docs" / "guides" / "production.md"


class Machine:
    """A directory in which the page's commands are run, and a port for the hub."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        authority = Authority(folder)
        authority.sign_for_server("hub")
        self.trust = ssl.create_default_context(cafile=str(authority.certificate))
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PENSTOCK_DATABASE": f"sqlite:///{folder}/penstock.db",
            "PENSTOCK_PORT": str(self.port),
            "CURL_CA_BUNDLE": str(authority.certificate),
        }

    def run(self, script: str) -> str:
        """Run commands to their end and return what they print."""
        script = script.replace("hub.example:8080", f"localhost:{self.port}")
        words = ["bash", "-euc", script]
        done = subprocess.run(words, cwd=self.folder, env=self.environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def serving(self, command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the hub until the block ends."""
        words = ["bash", "-euc", f"exec {command}"]
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(words, cwd=self.folder, env=self.environment, stderr=log)
        try:
            until(lambda: process.poll() is not None or self.answers(), "the hub answers")
            assert process.poll() is None, (self.folder / "log").read_text(encoding="utf-8")
            yield process
        finally:
            process.kill()
            process.wait()

    def answers(self) -> bool:
        try:
            url = f"https://localhost:{self.port}/health/ready"
            return httpx2.get(url, verify=self.trust).status_code == 200
        except httpx2.TransportError:
            return False


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def block(beginning: str) -> str:
    """Return the page's block that begins so."""
    [found] = [each.text for each in blocks(PAGE) if each.text.startswith(beginning)]
    return found


def test_steps_lead_to_a_hub_with_tls_tokens_alarms_and_backups(machine: Machine) -> None:
    with machine.serving(block("penstock serve").strip()) as hub:
        assert "pst_" not in machine.run(block("penstock token create"))
        tokens = [(machine.folder / f"{name}.token").read_text(encoding="ascii").strip() for name in ("ops", "shop")]

        checks = block("curl -i https://hub.example").splitlines()
        assert " 401 " in machine.run(checks[0]).splitlines()[0]
        url = f"https://localhost:{machine.port}/event-types"
        with httpx2.Client(verify=machine.trust) as client:
            for token in tokens:
                headers = {"Authorization": f"Bearer {token}"}
                until(lambda headers=headers: client.get(url, headers=headers).status_code == 200, "it is taken")
        assert " 200 " in machine.run(checks[1]).splitlines()[0]

        machine.run(block("penstock monitoring"))
        assert (machine.folder / "penstock-alerts.yml").stat().st_size
        assert (machine.folder / "penstock-dashboard.json").stat().st_size

        assert "checked and on disk" in machine.run("penstock backup copy.db")
        machine.run("penstock restored --yes --database sqlite:///copy.db")
        assert "WRONG  database" not in machine.run("penstock doctor || true")
        hub.send_signal(signal.SIGTERM)
        assert hub.wait(60) == 0
