"""Spark as a cluster of several processes, whose Pythons know nothing of Penstock but the wheel that a query brings."""

import contextlib
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest

from penstock.client import Client
from penstock.core.event import NewEvent
from penstock.testing.live_hub import LiveHub
from penstock.testing.port import free_port

EVENTS = 5000
PARTITIONS = 4
WORKERS = 2
START_SECONDS_MAX = 60
ROOT = Path(__file__).parents[2]
NEEDED = ["pyspark", "py4j", "pyarrow", "msgspec"]
"""What an executor has to have, PySpark's own needs included."""

DRIVER = """
import json, sys
from pyspark.sql import SparkSession
from penstock.spark.source import PenstockDataSource

url, event_type, file = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(PenstockDataSource)

def told(row):
    import os, penstock
    return row["partition"], row["offset"], row["data"], os.getcwd(), penstock.__file__

options = {"url": url, "eventType": event_type, "minPartitions": "8"}
rows = spark.read.format("penstock").options(**options).load().rdd.map(told).collect()
with open(file, "w") as written:
    json.dump(rows, written)
spark.stop()
"""


class Cluster(NamedTuple):
    url: str
    python: Path


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_a_cluster_reads_every_event_once(
    hub: LiveHub, client: Client, cluster: Cluster, wheel: Path, tmp_path: Path
) -> None:
    client.create_event_type("counted", partition_count=PARTITIONS, partition_strategy="user_defined")
    client.publish("counted", (NewEvent(b'{"n": %d}' % n, partition=n % PARTITIONS) for n in range(EVENTS)))
    program, found = tmp_path / "driver.py", tmp_path / "found.json"
    program.write_text(DRIVER)

    options = ["--master", cluster.url, "--py-files", wheel, "--conf", "spark.driver.host=127.0.0.1"]
    options += ["--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=512m"]
    options += ["--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"]  # So that both get something to do.
    command = [spark_home() / "bin" / "spark-submit", *options, program, hub.url, "counted", found]
    done = subprocess.run(
        [str(part) for part in command],
        env=environment(cluster.python),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    rows = json.loads(found.read_text())
    partitions, offsets, data, directories, origins = zip(*rows, strict=True)
    assert sorted(json.loads(event)["n"] for event in data) == list(range(EVENTS))
    assert len(set(zip(partitions, offsets, strict=True))) == EVENTS
    assert len(set(directories)) == WORKERS  # Each executor has one of its own.
    assert all(wheel.name in origin for origin in origins)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """The package as it would be released; Spark takes an archive into the path if it is called a zip."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    return built.rename(tmp_path / "penstock.zip")


@pytest.fixture
def slim_python(tmp_path: Path) -> Path:
    """A Python that has what an executor needs, and not Penstock."""
    venv.create(tmp_path / "python", symlinks=True)
    (packages,) = (tmp_path / "python" / "lib").glob("python*/site-packages")
    for name in NEEDED:
        spec = find_spec(name)
        assert spec
        assert spec.origin
        (packages / name).symlink_to(Path(spec.origin).parent)
    python = tmp_path / "python" / "bin" / "python"
    asked = subprocess.run([python, "-c", "import penstock"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert "No module named 'penstock'" in asked.stderr
    return python


@pytest.fixture
def cluster(slim_python: Path, tmp_path: Path) -> Iterator[Cluster]:
    """A master and its workers, with a core each."""
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:

        def start(name: str, kind: str, *arguments: object) -> None:
            log = tmp_path / f"{name}.log"
            stack.enter_context(daemon(log, slim_python, f"org.apache.spark.deploy.{kind}", *arguments))

        start("master", "master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", page)
        wait_for_workers(page, 0)
        for number in range(WORKERS):
            place = ["--work-dir", tmp_path / f"work-{number}", "--webui-port", free_port()]
            start(
                f"worker-{number}",
                "worker.Worker",
                "--host",
                "127.0.0.1",
                "--cores",
                1,
                "--memory",
                "600m",
                *place,
                url,
            )
        wait_for_workers(page, WORKERS)
        yield Cluster(url, slim_python)


@contextlib.contextmanager
def daemon(log: Path, python: Path, *command: object) -> Iterator[None]:
    """Run one of Spark's own programs until the block ends."""
    words = [str(spark_home() / "bin" / "spark-class"), *map(str, command)]
    with log.open("wb") as written:
        process = subprocess.Popen(words, stdout=written, stderr=written, env=environment(python), cwd=log.parent)
    with process:
        try:
            yield
        finally:
            process.terminate()  # It is Java itself: spark-class ends in an exec. A worker ends its executors.


def wait_for_workers(page: int, wanted: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while (found := alive(page)) != wanted:
        assert time.monotonic() < deadline, f"{found} of {wanted} workers have come"
        time.sleep(0.1)


def alive(page: int) -> int:
    """Return how many workers the master has, -1 as long as it does not answer."""
    with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
        return int(json.load(answer)["aliveworkers"])
    return -1


def spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec
    assert spec.origin
    return Path(spec.origin).parent


def environment(python: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK_", "PYSPARK_"))}
    return ours | {"SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
