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


def test_a_skip_fails_only_where_it_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile(ONE_SKIPPED)

    project.runpytest_subprocess("-p", "tests.no_skips").assert_outcomes(passed=1, skipped=1, xfailed=1)
    refused = project.runpytest_subprocess("-p", "tests.no_skips", "--no-skips")

    refused.assert_outcomes(passed=1, failed=1, xfailed=1)
    refused.stdout.fnmatch_lines(["*no Java here*", "*Nothing may be skipped here*"])


def test_a_file_that_skips_itself_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile(ALL_SKIPPED)

    refused = project.runpytest_subprocess("-p", "tests.no_skips", "--no-skips")

    refused.assert_outcomes(errors=1)
    assert refused.ret != 0
