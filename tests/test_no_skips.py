"""CI refuses silent skips: with `--no-skips` they fail, without it they do not."""

from pathlib import Path

import pytest

ONE_SKIPPED = """
import pytest

def test_that_runs():
    pass

def test_that_is_skipped():
    pytest.skip("no Java here")

@pytest.mark.xfail(strict=True)
def test_that_is_known_to_fail():
    assert False
"""
ALL_SKIPPED = """
import pytest
pytest.importorskip("a_library_that_nobody_has")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    pytester.makepyprojecttoml("[tool.pytest]")
    return pytester


def test_skipped_test_and_skipped_file_fail_with_no_skips_only(project: pytest.Pytester) -> None:
    project.makepyfile(test_one=ONE_SKIPPED, test_all=ALL_SKIPPED)
    options = ("-p", "tests.no_skips", "-p", "no:schemathesis", "--continue-on-collection-errors")

    project.runpytest_subprocess(*options).assert_outcomes(passed=1, skipped=2, xfailed=1)
    refused = project.runpytest_subprocess(*options, "--no-skips")

    refused.assert_outcomes(passed=1, failed=1, errors=1, xfailed=1)
    refused.stdout.fnmatch_lines(["*no Java here*", "*Nothing may be skipped here*"])
