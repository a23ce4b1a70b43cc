"""Every promise of docs/guarantees.md names the test that shows it, and every test of a promise is named there."""

import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
PROMISES = ROOT / "tests" / "promises"
_TEST = re.compile(r"\[`(test_\w+)`\]\(\.\./tests/([\w/]+)/(\w+)\.py\)")
_PROMISES = PAGE.partition("## Order and visibility")[2].partition("## Meant, and not yet shown")[0]
HEADED = re.split(r"^(?=\*\*)", _PROMISES, flags=re.MULTILINE)[1:]


def marks_of(thing: Any) -> list[pytest.Mark]:
    """Return the marks of a module or of a function."""
    marks = getattr(thing, "pytestmark", [])
    return [each.mark if isinstance(each, pytest.MarkDecorator) else each for each in _listed(marks)]


def _listed(marks: Any) -> list[Any]:
    return list(marks) if isinstance(marks, list | tuple) else [marks]


def is_left_out(thing: Any) -> bool:
    """Return whether `make test` runs nothing of a module, class or function."""
    marks = marks_of(thing)
    if any(mark.name == "exhaustive" for mark in marks):
        return True
    cases = [list(mark.args[1]) for mark in marks if mark.name == "parametrize"]
    return any(all(_is_exhaustive(case) for case in each) for each in cases)


def _is_exhaustive(case: Any) -> bool:
    return any(mark.name == "exhaustive" for mark in getattr(case, "marks", ()))


def defined_in(module: Any) -> Iterator[Any]:
    """Yield the test functions of a module, and its test classes as wholes."""
    for name, value in vars(module).items():
        if name.startswith("test_") or (name.startswith("Test") and isinstance(value, type)):
            yield value


def runs_in_make_test(folder: str, name: str) -> bool:
    module = importlib.import_module(f"tests.{folder.replace('/', '.')}.{name}")
    return not is_left_out(module) and not all(is_left_out(test) for test in defined_in(module))


def test_page_names_every_test_of_a_promise() -> None:
    named = {link for _, folder, link in _TEST.findall(PAGE) if folder == "promises"}

    assert named == {path.stem for path in PROMISES.glob("test_*.py")}


def test_links_to_tests_have_their_names() -> None:
    assert all(name == link for name, _, link in _TEST.findall(PAGE))


def test_every_promise_names_its_test() -> None:
    unshown = [promise.partition("**\n")[0][:60] for promise in HEADED if not _TEST.search(promise)]

    assert not unshown


def test_every_promise_is_shown_by_a_test_that_runs_in_make_test() -> None:
    unshown = [
        promise.partition("**\n")[0][:60]
        for promise in HEADED
        if not any(runs_in_make_test(folder, link) for _, folder, link in _TEST.findall(promise))
    ]

    assert not unshown


def test_every_test_of_a_promise_runs_in_make_test() -> None:
    left_out = [path.stem for path in PROMISES.glob("test_*.py") if not runs_in_make_test("promises", path.stem)]

    assert not left_out


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        (pytest.mark.timeout(9), False),
        (pytest.mark.exhaustive, True),
        (pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.exhaustive)]), False),
        (pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.exhaustive)]), True),
    ],
    ids=["other", "marked", "one case", "all cases"],
)
def test_function_is_left_out_if_it_or_each_of_its_cases_is_exhaustive(
    marks: pytest.MarkDecorator, *, expected: bool
) -> None:
    def some() -> None: ...

    assert is_left_out(marks(some)) is expected
