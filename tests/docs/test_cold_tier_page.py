"""The programs of docs/reference/cold-tier.md read the files of a hub as they stand on the page.

That for Spark runs in `tests/spark/test_guides.py`, in a session that runs already.
"""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs.examples import Block, blocks
from tests.docs.sealed_orders import PAGE, PROGRAMS, seal_orders


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory beside which a hub has sealed orders."""
    directory = tmp_path_factory.mktemp("reading")
    seal_orders(directory)
    return directory


def run(block: Block, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", block.text], cwd=directory, check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"line {block.line}: {done.stderr}"
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("library", "printed"),
    [
        ("pyarrow", '10 {"cents": 0}'),
        ("duckdb", "[('Ada', 10, 135), ('Bob', 10, 145), ('Cyd', 10, 155)]"),
        ("deltalake", "[(10, 135)]"),
        ("pandas", "{'Ada': 10, 'Bob': 10, 'Cyd': 10}"),
        ("glob", "435"),
    ],
)
def test_program_of_the_page_reads_what_was_sealed(directory: Path, library: str, printed: str) -> None:
    assert run(PROGRAMS[library], directory) == printed


@pytest.mark.parametrize(
    "program",
    [
        """
        import duckdb
        files = "read_parquet('cold/order.billed/[0-9]*/*.parquet', union_by_name = true)"
        print(duckdb.sql(f'SELECT typed.cents, typed.name FROM {files} ORDER BY "offset"').fetchall())
        """,
        """
        from glob import glob
        import pandas as pd, pyarrow as pa, pyarrow.parquet as pq
        schema = pa.unify_schemas([pq.read_schema(each) for each in glob("cold/order.billed/*/*.parquet")])
        events = pd.read_parquet("cold/order.billed", schema=schema).sort_values("offset")
        print([(each["cents"], each["name"]) for each in events["typed"]])
        """,
        pytest.param(
            """
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.getOrCreate()
        events = spark.read.options(recursiveFileLookup=True, mergeSchema=True).parquet("cold/order.billed")
        print([tuple(each) for each in events.orderBy("offset").select("typed.cents", "typed.name").collect()])
        """,
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["duckdb", "pandas", "pyspark"],
)
def test_files_of_two_versions_of_a_schema_are_read_together(directory: Path, program: str) -> None:
    program = textwrap.dedent(program)

    assert run(Block(1, "python", program), directory) == "[(0, None), (0, 'Bob'), (1, 'Ada')]"


def test_page_has_no_other_program() -> None:
    assert sorted(PROGRAMS) == ["deltalake", "duckdb", "glob", "pandas", "pyarrow", "pyspark"]


def test_command_at_the_top_is_sql_that_runs(directory: Path) -> None:
    [first] = [block for block in blocks(PAGE) if block.language == "sh"]
    sql = first.text.split('"')[1]

    found = run(
        Block(
            first.line,
            "python",
            f"import duckdb; print([(key, int(cents)) for key, cents in duckdb.sql({sql!r}).fetchall()])",
        ),
        directory,
    )

    assert sorted(ast.literal_eval(found)) == [("Ada", 135), ("Bob", 145), ("Cyd", 155)]
