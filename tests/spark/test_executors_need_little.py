import json
import subprocess
import sys

PROGRAM = """
import json, sys
import pyspark_penstock, penstock.spark.stream
import pyspark_zeroeventhub, penstock.spark.zeroeventhub.stream
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
print(json.dumps(sorted(name for name in sys.modules if name.startswith("penstock."))))
"""


LOOKUP = """
import sys
import pyspark.sql.datasource, pyspark_penstock
print(*(name for name in ("pyarrow", "numpy", "pandas") if name in sys.modules))
"""


def test_sessions_that_read_no_feed_do_not_load_what_reads_it() -> None:
    done = subprocess.run([sys.executable, "-c", LOOKUP], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_what_executors_import_is_pyspark_pyarrow_and_this_package() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded, ours = (json.loads(line) for line in done.stdout.splitlines())

    unwanted = {"httpx", "httpx2", "psycopg", "starlette", "structlog", "typer", "uvicorn", "zstandard"}
    assert not unwanted & set(loaded)
    assert not [name for name in ours if name.split(".")[1] in ("hub", "storage", "server", "client", "outbox", "cli")]
