"""Holds a definition against all guidelines."""

from typing import Any

from penstock.core.guidelines.declaration import check_declaration
from penstock.core.guidelines.draft import Draft
from penstock.core.guidelines.guideline import Finding
from penstock.core.guidelines.ordering import check_ordering
from penstock.core.guidelines.payload import check_payload
from penstock.core.guidelines.waivers import waived


def check(definition: Any) -> list[Finding]:
    """Return where an event type's definition, in Nakadi's shape, does not keep the event guidelines.

    It raises nothing, whatever *definition* is: what is broken is passed over, or is a finding itself. Whether the
    definition is valid is another question, which `EventType.parse` answers.

    >>> [finding.rule.id for finding in check({"name": "order.placed", "category": "business"})]
    ['ownership', 'payload-schema', 'process-id', 'process-order']
    """
    if not isinstance(definition, dict):
        return []
    draft = Draft(definition)
    findings = [*check_declaration(draft), *check_payload(draft), *check_ordering(draft)]
    return [*waived(findings, draft.annotations)]
