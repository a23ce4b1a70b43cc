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


LEFT_OUT = """
import pytest

@pytest.mark.slow
def test_slow():
    raise AssertionError
"""


def test_files_that_are_collected_late_have_the_outcomes_of_others(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    pytester.makepyprojecttoml('[tool.pytest]\nmarkers = ["slow: left out"]')
    files = dict.fromkeys(["a/test_a", "b/test_b", "c/test_c"], TESTS)
    files |= {"a/test_no_tests": "", "b/test_left_out": LEFT_OUT, "b/test_broken": "import nothing_of_that_name"}
    pytester.makepyfile(**files)

    result = pytester.runpytest_subprocess(
        "-p", "tests.late_collection", "-p", "no:schemathesis", "-n", "1", "--dist", "loadfile", "-m", "not slow"
    )

    result.assert_outcomes(passed=9, failed=3, errors=1)
    result.stdout.fnmatch_lines(["FAILED ?/test_?.py::test_number[[]2[]]*", "ERROR b/test_broken.py*"])
    assert len(list(pytester.path.glob("test_?.ended"))) == 3
