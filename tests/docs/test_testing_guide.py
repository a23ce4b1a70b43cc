"""The project of docs/guides/testing-processors.md, put together from the page as it stands, passes its tests."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from penstock.processing.stream_event import StreamEvent
from tests.docs.examples import ROOT, blocks
from tests.plugin import PLUGIN

PAGE = ROOT / "docs" / "guides" / "testing-processors.md"
_FILE = re.compile(r"# (\w+\.py)\n")


def project() -> dict[str, str]:
    """Return the page's files: one begins where its name stands, and goes on until the next one."""
    texts: dict[str, str] = {}
    name = ""
    for block in blocks(PAGE):
        if block.language == "python":
            begins = _FILE.match(block.text)
            name = begins[1] if begins else name
            texts[name] = texts.get(name, "") + block.text
    return texts


def test_handler_of_the_guide_counts_events_of_another_partition_with_smaller_offsets() -> None:
    made: dict[str, Any] = {}
    exec(project()["spending.py"], made)
    spending = made["Spending"]()
    places = (("orders/0@1", 100), ("orders/0@1", 100), ("orders/3@1", 7), ("orders/3@1", 7), ("orders/0@1", 101))
    for numbering, index in places:
        spending("orders-Ada", [StreamEvent("orders-Ada", index, "order", b'{"cents": 5}', numbering=numbering)])

    assert spending.cents == {"orders-Ada": 15}


def test_tests_of_the_guide_pass(tmp_path: Path) -> None:
    texts = project()
    assert texts.keys() == {"spending.py", "test_spending.py"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-W", "error", "-p", "no:cacheprovider", "-v"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stdout
    passed = set(re.findall(r"::(\w+)\S* PASSED", done.stdout))
    assert passed == set(re.findall(r"^def (test_\w+)", texts["test_spending.py"], re.MULTILINE))
