"""Waivers: annotations that say why a guideline is broken on purpose, or why a finding is none."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from penstock.core.guidelines import rules
from penstock.core.guidelines.fields import names_on
from penstock.core.guidelines.guideline import Finding
from penstock.core.walk import shown, steps

WAIVER_PREFIX: Final = "penstock.waiver/"
"""Begins the key of such an annotation; the guideline's id follows, and the value is the reason.

Behind the id there may be a period and the path of a field, as in `personal-data.customer.phone`: such a waiver holds
for that field and what is in it alone. Prefix and name of the key, and the length of its value, keep the rules for
annotations (digest of Nakadi's contract, 2.2).
"""


def waived(findings: Iterable[Finding], annotations: Mapping[str, str]) -> Iterator[Finding]:
    """Yield *findings*, those of waived guidelines with the reason, and what is wrong with the waivers themselves.

    A guideline that is for people to judge can be waived too: it is a finding then, which says so.
    """
    reasons = _reasons(annotations)
    needed = set[str]()
    for finding in findings:
        waivers = [waiver for waiver in _waivers(finding) if waiver in reasons]
        needed.update(waivers)
        yield finding._replace(waived=next(filter(None, map(reasons.get, waivers)), None))
    for waiver, reason in reasons.items():
        pointer = shown(("annotations", WAIVER_PREFIX + waiver))
        rule_id, _, field = waiver.partition(".")
        rule = rules.GUIDELINES.get(rule_id)
        if rule is None:
            yield Finding(rules.WAIVER, "definition", pointer, f"there is no guideline {rule_id!r}")
        elif not reason:
            yield Finding(rules.WAIVER, "definition", pointer, "it gives no reason, so nothing is waived")
        elif not rule.is_checked:
            yield Finding(rule, "definition", pointer, "this guideline is for people to judge", reason)
        elif waiver not in needed:
            where = f" at the field {field!r}" if field else ""
            yield Finding(rules.WAIVER, "definition", pointer, f"nothing breaks {rule_id!r}{where}: it can go")


def reason_for(finding: Finding, annotations: Mapping[str, str]) -> str | None:
    """Return the reason for which *annotations* waive a finding; None if they do not."""
    return next(filter(None, map(_reasons(annotations).get, _waivers(finding))), None)


def _reasons(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the reason of each waiver by what its key has behind the prefix."""
    return {
        key.removeprefix(WAIVER_PREFIX): reason.strip()
        for key, reason in annotations.items()
        if key.startswith(WAIVER_PREFIX)
    }


def _waivers(finding: Finding) -> Iterator[str]:
    """Yield the waivers that hold for a finding: for its field, for what that lies in, and for the event type."""
    names = names_on(steps(finding.pointer)) if finding.within == "schema" else []
    for count in range(len(names), -1, -1):
        yield ".".join([finding.rule.id, *names[:count]])
