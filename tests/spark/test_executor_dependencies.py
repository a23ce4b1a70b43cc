import json
import subprocess
import sys
from importlib.metadata import packages_distributions

from tests.spark.cluster import OF_HTTPX2

PROGRAM = """
import json, sys
import pyspark_penstock, penstock.spark.stream
import pyspark_zeroeventhub, penstock.spark.foreign.zeroeventhub, penstock.spark.foreign.stream
import penstock.spark.processors.calling
import penstock.spark.processors.sources.feed_reading, penstock.spark.processors.sources.frames
import penstock.spark.projections.folding, penstock.spark.projections.typed_rows
from penstock.processing import StreamEvent  # For handlers.
from penstock.processing.effects import Effect  # For handlers.
from penstock.processing.handlers import by_kind  # For handlers.
from penstock.processing.outcomes import done, done_to, retry, skip_to  # For handlers.
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
print(json.dumps(sorted(name for name in sys.modules if name.startswith("penstock."))))
"""


WITHOUT_NUMPY = """
import runpy, sys
sys.modules["numpy"] = None
runpy.run_module("tests.spark.executed", run_name="__main__")
"""


def test_executors_import_pyspark_pyarrow_httpx2_and_this_package_alone() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded, ours = (json.loads(line) for line in done.stdout.splitlines())

    everything = {name.split(".")[0] for name in packages_distributions() if not name.startswith("_")}
    needed = {"msgspec", "numpy", "penstock", "py4j", "pyarrow", "pyspark", *OF_HTTPX2, "backports"}
    assert everything & set(loaded) <= needed
    assert not [name for name in ours if name.split(".")[1] in ("hub", "storage", "server", "outbox", "cli")]


def test_events_are_handled_and_folded_without_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)

    assert found["called"] == [
        ["a", False, 4, 9, "done", 8, 2],
        ["a", False, 10, 12, "waiting", None, 0],
        ["b", False, 5, 15, "waiting", None, 0],
        ["c", False, 7, 8, "waiting", None, 0],
        ["c", True, 2, 4, "done", None, 2],
        ["d", False, 9, 10, "failed", None, 0],
        ["e", False, 12, 13, "failed", None, 0],
    ]
    allowed = "an index of one event alone; its row may be there twice"
    assert found["twice"] == f"parameter index is '0, of two events in b'; allowed: {allowed}"
    assert found["folded"] == [["a", 6, False, True], ["b", 2, False, False], ["c", 4, False, True]]
