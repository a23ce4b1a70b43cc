"""Waivers: annotations that say why a guideline is broken on purpose."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from penstock.core.guidelines import rules
from penstock.core.guidelines.guideline import Finding
from penstock.core.walk import shown

WAIVER_PREFIX: Final = "penstock.waiver/"
"""Begins the key of such an annotation; the guideline's id follows, and the value is the reason.

Prefix and name of the key, and the length of its value, keep the rules for annotations (digest of Nakadi's contract,
2.2).
"""


def waived(findings: Iterable[Finding], annotations: Mapping[str, str]) -> Iterator[Finding]:
    """Yield *findings*, those of waived guidelines with the reason, and what is wrong with the waivers themselves.

    A guideline that is for people to judge can be waived too: it is a finding then, which says so.
    """
    reasons = {
        key.removeprefix(WAIVER_PREFIX): reason.strip()
        for key, reason in annotations.items()
        if key.startswith(WAIVER_PREFIX)
    }
    broken = set[str]()
    for finding in findings:
        broken.add(finding.rule.id)
        yield finding._replace(waived=reasons.get(finding.rule.id) or None)
    for rule_id, reason in reasons.items():
        pointer = shown(("annotations", WAIVER_PREFIX + rule_id))
        rule = rules.GUIDELINES.get(rule_id)
        if rule is None:
            yield Finding(rules.WAIVER, "definition", pointer, f"there is no guideline {rule_id!r}")
        elif not reason:
            yield Finding(rules.WAIVER, "definition", pointer, "it gives no reason, so nothing is waived")
        elif not rule.is_checked:
            yield Finding(rule, "definition", pointer, "this guideline is for people to judge", reason)
        elif rule_id not in broken:
            yield Finding(rules.WAIVER, "definition", pointer, f"nothing breaks {rule_id!r}: it can go")
