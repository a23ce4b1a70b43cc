import inspect
import re

import pytest

from penstock.core.guidelines import GUIDELINES, Guideline
from tests.unit.core.guidelines import test_declaration, test_ordering, test_payload, test_waivers

TESTS = "".join(inspect.getsource(each) for each in (test_declaration, test_ordering, test_payload, test_waivers))


@pytest.mark.parametrize("rule", GUIDELINES.values(), ids=lambda rule: rule.id)
def test_a_guideline_is_told_in_sentences(rule: Guideline) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
    assert rule.asks.endswith(".")
    assert rule.advice.endswith((".", "…"))
    assert rule.level in ("MUST", "SHOULD", "MAY")
    assert rule.source


@pytest.mark.parametrize("rule", [each for each in GUIDELINES.values() if each.is_checked], ids=lambda rule: rule.id)
def test_each_that_is_checked_has_a_row_that_breaks_it(rule: Guideline) -> None:
    assert f'"{rule.id}"' in TESTS


def test_every_heading_of_the_event_guidelines_has_its_rules() -> None:
    headings = [rule.source for rule in GUIDELINES.values()]

    for asked in (
        *("part of the service interface", "useful business resources", "conform to Nakadi's API"),
        *("sensitive customer personal data", "business processes", "signal mutations", "explicit event ordering"),
        *("hash partition strategy", "match API representations", "ownership", "overall guidelines"),
        *("backwards compatibility", "additionalProperties", "unique event identifiers", "idempotent out-of-order"),
        *("event type names", "duplicate events"),
    ):
        assert any(asked in heading for heading in headings), asked
