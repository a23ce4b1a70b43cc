"""A hub without PyArrow, the extra `arrow`, does everything but send Arrow pages; it says how to install the extra."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import httpx2
import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import ARROW, problem_of

NDJSON = "application/x-ndjson"
INSTALLS = "pip install 'penstock-hub[arrow]'"
PAGE = "/feeds/order.placed?n=1&cursor0=_first"


@pytest.fixture
def without_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Processes that are started from here on find no PyArrow."""
    folder = tmp_path / "startup"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    return folder


def started(arguments: Sequence[str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start a new interpreter: one that is forked from the tests' own has PyArrow already."""
    program = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.Popen(program, stdout=output, stderr=output, stdin=subprocess.PIPE)


@pytest.fixture
def http(without_arrow: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx2.Client]:
    monkeypatch.setattr(LiveHub, "started", staticmethod(started))
    with live_hub(sqlite_url) as hub, Client(hub.url) as client:
        client.create_event_type("order.placed")
        assert client.publish("order.placed", [{"order_id": 7}]) is not None
        with httpx2.Client(base_url=hub.url) as http:
            yield http


@pytest.mark.parametrize("accept", [None, "*/*", NDJSON, f"{ARROW}, {NDJSON};q=0.1"])
def test_hub_without_pyarrow_sends_lines_to_clients_that_take_them(http: httpx2.Client, accept: str | None) -> None:
    answer = http.get(PAGE, headers={} if accept is None else {"accept": accept})

    assert answer.status_code == 200
    assert answer.headers["content-type"] == NDJSON
    assert '"data":{"order_id":7}' in answer.text


@pytest.mark.parametrize("accept", [ARROW, f"{ARROW}, image/png"])
def test_hub_without_pyarrow_refuses_arrow_and_names_the_extra(http: httpx2.Client, accept: str) -> None:
    problem = problem_of(http.get(PAGE, headers={"accept": accept}), 406, "arrow-not-installed")

    assert "PyArrow" in problem["detail"]
    assert INSTALLS in problem["hint"]
    assert problem["allowed"] == NDJSON


def test_hub_without_pyarrow_refuses_other_forms_as_before(http: httpx2.Client) -> None:
    problem = problem_of(http.get(PAGE, headers={"accept": "image/png"}), 406, "not-acceptable")

    assert problem["allowed"] == NDJSON


def test_feed_source_without_pyarrow_names_the_extra(without_arrow: Path) -> None:
    program = "from penstock.processing import FeedSource\nFeedSource('http://localhost:8080', 'order.placed')"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode
    assert INSTALLS in done.stderr.splitlines()[-1]
