"""A lake of Delta, on the newest PySpark that Delta has come to: the oldest that we work with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub
from tests.conftest import BUILD
from tests.jars import JarsMissing, jars
from tests.spark.republishing import ROOT

OLDEST = BUILD / "pyspark-oldest"


@pytest.fixture
def delta() -> str:
    """The jars, as `spark.jars` takes them."""
    if not (OLDEST / "installed").exists():
        pytest.skip("the oldest PySpark is not in build/: run `make test-all`")
    try:
        return ",".join(map(str, jars("delta")))
    except JarsMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.exhaustive
def test_a_micro_batch_that_is_run_again_is_in_the_table_once(
    client: Client, hub: LiveHub, event_type: str, delta: str, tmp_path: Path
) -> None:
    name = f"{event_type}-typed"
    schema = {"properties": {"n": {"type": "integer"}}}
    client.create_event_type(name, partition_count=2, schema=schema)
    client.create_event_type(f"{name}.again", schema=schema)
    client.publish(name, [{"n": n} for n in range(100)])

    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.fill_delta", delta, str(tmp_path / "lake"), hub.url, name],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(OLDEST)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout)
    assert told["pyspark"].startswith("4.2.")
    assert told["events"] == 100
    assert sorted(told["numbers"]) == [*range(100)]
    assert sum(each.head for each in client.partitions(f"{name}.again")) == 100
    heads = {each.partition: each.head for each in client.partitions(name)}
    assert {tranche: events for tranche, _, events in told["sums"]} == {str(at): head for at, head in heads.items()}
    assert sum(total for _, total, _ in told["sums"]) == sum(range(100))
    assert told["rounds"] >= 3, "the last round was folded again, to the same"
