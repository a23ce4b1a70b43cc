"""Every test that the guide to idempotent publishing names is there, in the file that it leads to."""

import re

from tests.docs.examples import ROOT

GUIDE = ROOT / "docs" / "guides" / "idempotent-publishing.md"
NAMED = sorted(set(re.findall(r"\[`(test_\w+)`\]\(([\w./]+)\)", GUIDE.read_text(encoding="utf-8"))))


def test_named_tests_exist() -> None:
    missing = [name for name, link in NAMED if f"def {name}(" not in (GUIDE.parent / link).read_text(encoding="utf-8")]

    assert len(NAMED) > 20
    assert not missing
