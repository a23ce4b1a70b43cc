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
from tests.served import ARROW, CLOUD_EVENTS, problem_of

NDJSON = "application/x-ndjson"
INSTALLS = "pip install 'penstock-hub[arrow]'"
PAGE = "/feeds/order.placed?n=1&cursor0=_first"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder; processes that are started while it is there find no PyArrow."""
    folder = tmp_path_factory.mktemp("startup")
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield folder


def start_interpreter(arguments: Sequence[str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start a new interpreter: one that is forked from the tests' own has PyArrow already."""
    program = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.Popen(program, stdout=output, stderr=output, stdin=subprocess.PIPE)


@pytest.fixture(scope="module")
def http(folder: Path) -> Iterator[httpx2.Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveHub, "start_penstock", staticmethod(start_interpreter))
        with live_hub(f"sqlite:///{folder}/hub.db") as hub, Client(hub.url) as client:
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


@pytest.mark.parametrize(
    ("accept", "code"),
    [(ARROW, "arrow-not-installed"), (f"{ARROW}, image/png", "arrow-not-installed"), ("image/png", "not-acceptable")],
)
def test_hub_without_pyarrow_refuses_arrow_and_names_the_extra(http: httpx2.Client, accept: str, code: str) -> None:
    problem = problem_of(http.get(PAGE, headers={"accept": accept}), 406, code)

    assert problem["allowed"] == f"{NDJSON}, {CLOUD_EVENTS}, text/event-stream"
    assert code == "not-acceptable" or ("PyArrow" in problem["detail"] and INSTALLS in problem["hint"])


@pytest.mark.usefixtures("folder")
def test_feed_source_without_pyarrow_names_the_extra() -> None:
    program = "from penstock.processing import FeedSource\nFeedSource('http://localhost:8080', 'order.placed')"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode
    assert INSTALLS in done.stderr.splitlines()[-1]
