"""Every promise of docs/guarantees.md names the test that shows it, and every test of a promise is named there."""

import re

from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
PROMISES = ROOT / "tests" / "promises"
_TEST = re.compile(r"\[`(test_\w+)`\]\(\.\./tests/([\w/]+)/(\w+)\.py\)")


def test_the_page_names_the_tests_of_promises_that_there_are() -> None:
    named = {link for _, folder, link in _TEST.findall(PAGE) if folder == "promises"}

    assert named == {path.stem for path in PROMISES.glob("test_*.py")}


def test_a_test_is_linked_by_its_name() -> None:
    assert all(name == link for name, _, link in _TEST.findall(PAGE))


def test_every_promise_names_its_test() -> None:
    promises = PAGE.partition("## Order and visibility")[2].partition("## Meant, and not yet shown")[0]
    headed = re.split(r"^(?=\*\*)", promises, flags=re.MULTILINE)[1:]
    unshown = [promise.partition("**\n")[0][:60] for promise in headed if not _TEST.search(promise)]

    assert not unshown
