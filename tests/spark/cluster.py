"""A cluster of several processes, whose Pythons know nothing of Penstock but the wheel that a driver brings."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

from penstock.testing.port import free_port
from tests.faults.processes import children, owner_of, parent_of
from tests.faults.proxy import Visit
from tests.java import spark_options
from tests.spark.daemons import daemon, environment, spark_home
from tests.spark.drivers import ROOT, Driver

WORKERS = 2
START_SECONDS_MAX = 300
DRIVER_SECONDS_MAX = 600
DRIVER = Path(__file__).with_name("cluster_driver.py")
OF_HTTPX2 = ["httpx2", "httpcore2", "anyio", "h11", "idna", "sniffio", "truststore", "typing_extensions"]
NEEDED = ["pyspark", "py4j", "pyarrow", "msgspec", *OF_HTTPX2]
"""The packages that an executor has to have, with those that PySpark and httpx2 need themselves."""
WITH_PANDAS = str(spark_home().parent)
"""What a driver has beside that. Penstock is not there: where it is edited, something else tells Python of it."""
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": spark_options(),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # So that all executors get something to do.
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
}


class Cluster(NamedTuple):
    """A master and its workers, with a core each."""

    url: str
    python: Path
    wheel: Path
    workers: tuple[int, ...]
    """Their processes."""

    def driver(
        self, job: str, folder: Path, *, script: Path = DRIVER, conf: dict[str, str] | None = None, **given: Any
    ) -> "ClusterDriver":
        """Start a job of a *script*, by default of `cluster_driver.py`, in *folder*."""
        return ClusterDriver(self, job, folder, conf or {}, given, script=script)

    def executors(self) -> list[int]:
        """Return the processes of all executors."""
        return [pid for worker in self.workers for pid in children(worker)]

    def worker_of(self, executor: int) -> int:
        """Return the worker that has started an executor."""
        return parent_of(executor)

    def executor_of(self, visit: Visit) -> int:
        """Return the executor that a request comes from."""
        return self.executor_above(owner_of(visit.ports, os.getsid(0)))

    def executor_above(self, pid: int) -> int:
        """Return the executor that a process belongs to: its Python workers are some generations below."""
        while parent_of(pid) not in self.workers:
            pid = parent_of(pid)
        return pid


class ClusterDriver(Driver):
    """A driver that runs on a cluster."""

    seconds_max = DRIVER_SECONDS_MAX

    def __init__(
        self, cluster: Cluster, job: str, folder: Path, conf: dict[str, str], given: dict[str, Any], *, script: Path
    ) -> None:
        settings = [word for name, value in (SETTINGS | conf).items() for word in ("--conf", f"{name}={value}")]
        submit = [spark_home() / "bin" / "spark-submit", "--master", cluster.url, *settings]
        words = [*submit, "--py-files", cluster.wheel, script, job, json.dumps(given), folder / f"{job}.json"]
        path = {"PYTHONPATH": f"{cluster.wheel}:{WITH_PANDAS}"}
        with (folder / f"{job}.log").open("wb") as log:
            super().__init__([*map(str, words)], log, env=environment(cluster.python) | path)


@contextlib.contextmanager
def standalone(python: Path, wheel: Path, folder: Path) -> Iterator[Cluster]:
    """Lend a cluster. Its workers are on hosts of their own, as Spark sees it: else it would not speculate."""
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:

        def start(name: str, kind: str, *arguments: object) -> int:
            words = ("spark-class", f"org.apache.spark.deploy.{kind}", *arguments)
            return stack.enter_context(daemon(folder / f"{name}.log", python, *words)).pid

        start("master", "master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", page)
        wait_for_workers(page, 0)
        workers = []
        for number in range(WORKERS):
            place = ["--host", f"127.0.0.{number + 1}", "--work-dir", folder / f"work-{number}"]
            room = ["--cores", 1, "--memory", "600m", "--webui-port", free_port()]
            workers.append(start(f"worker-{number}", "worker.Worker", *place, *room, url))
        wait_for_workers(page, WORKERS)
        yield Cluster(url, python, wheel, tuple(workers))


def wait_for_workers(page: int, wanted: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while (found := alive(page)) != wanted:
        assert time.monotonic() < deadline, f"{found} of {wanted} workers have come"
        time.sleep(0.1)


def alive(page: int) -> int:
    """Return how many workers the master has, -1 as long as it does not answer."""
    with contextlib.suppress(OSError, ValueError), urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
        return int(json.load(answer)["aliveworkers"])
    return -1


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def build_wheel(folder: Path) -> Path:
    """Return the package as it would be released; Spark takes an archive into the path if it is called a zip."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built.rename(folder / "penstock.zip")


def slim_python(folder: Path) -> Path:
    """Return a Python that has what an executor needs, and not Penstock."""
    venv.create(folder / "python", symlinks=True)
    (packages,) = (folder / "python" / "lib").glob("python*/site-packages")
    for name in NEEDED:
        spec = find_spec(name)
        assert spec
        assert spec.origin
        module = Path(spec.origin)
        module = module.parent if module.name == "__init__.py" else module
        for each in (module, *module.parent.glob(f"{name}-*.dist-info")):  # httpx2 asks for its own version.
            (packages / each.name).symlink_to(each)
    python = folder / "python" / "bin" / "python"
    command, env = [python, "-c", "import penstock"], environment(python)
    asked = subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True)
    assert "No module named 'penstock'" in asked.stderr
    return python
