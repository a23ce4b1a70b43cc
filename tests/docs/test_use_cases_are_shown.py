"""Every test that the guide to idempotent publishing names is there, in the file that it leads to."""

import re

import pytest

from tests.docs.examples import ROOT

GUIDE = ROOT / "docs" / "guides" / "idempotent-publishing.md"
NAMED = sorted(set(re.findall(r"\[`(test_\w+)`\]\(([\w./]+)\)", GUIDE.read_text(encoding="utf-8"))))


@pytest.mark.parametrize(("name", "link"), NAMED, ids=[name for name, _ in NAMED])
def test_a_named_test_is_there(name: str, link: str) -> None:
    assert f"def {name}(" in (GUIDE.parent / link).read_text(encoding="utf-8")


def test_there_are_such_tests() -> None:
    assert len(NAMED) > 20
