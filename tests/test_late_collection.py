"""Workers that collect a file when its turn comes run every test that they would have run otherwise."""

from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.fixture(scope="module", autouse=True)
def file():
    yield
    open(f"{__name__.rpartition('.')[2]}.ended", "x").close()

@pytest.mark.parametrize("number", range(3))
def test_number(number):
    assert number != 2

@pytest.mark.slow
def test_slow():
    raise AssertionError

class TestClass:
    def test_method(self):
        pass
"""


def test_files_that_are_collected_late_have_the_outcomes_of_others(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    pytester.makepyprojecttoml('[tool.pytest]\nmarkers = ["slow: left out"]')
    files = dict.fromkeys(["test_a", "test_b", "test_c"], TESTS)
    pytester.makepyfile(**files, test_broken="import nothing_of_that_name", test_empty="")

    result = pytester.runpytest_subprocess(
        "-p", "tests.late_collection", "-p", "no:schemathesis", "-n", "2", "--dist", "loadfile", "-m", "not slow"
    )

    result.assert_outcomes(passed=9, failed=3, errors=1)
    result.stdout.fnmatch_lines(["FAILED test_?.py::test_number[[]2[]]*", "ERROR test_broken.py*"])
    assert len(list(pytester.path.glob("test_?.ended"))) == 3
