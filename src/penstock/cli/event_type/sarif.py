"""Tells what a check has found as SARIF 2.1.0, which code review tools show beside the lines that it is about."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock import __version__
from penstock.cli.definition.document import FileLine
from penstock.cli.event_type.checked import Check, CheckedDefinition
from penstock.schema.guidelines import GUIDELINES, GuidelineFinding

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Final = {"MUST": "error", "SHOULD": "warning", "MAY": "note"}
INVALID: Final = "invalid-definition"
REFUSED: Final = "refused-change"
UNKNOWN: Final = "unknown-member"
NO_EFFECT: Final = "no-effect"
_OWN_RULES: Final = {
    INVALID: ("error", "A definition can be read, and is one that a hub takes."),
    REFUSED: ("error", "The hub would take it."),
    UNKNOWN: ("warning", "Every member of a definition means something to a hub."),
    NO_EFFECT: ("warning", "Every member of a definition has an effect."),
}
_RULES: Final = {rule_id: number for number, rule_id in enumerate([*GUIDELINES, *_OWN_RULES])}


def sarif(check: Check) -> dict[str, Any]:
    """Return the log of one run."""
    driver = {"name": "penstock", "version": __version__, "rules": [*_guidelines(), *_own_rules()]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [
            *(_result(INVALID, "error", each.reason, each.place) for each in check.unreadable),
            *(result for each in check.definitions for result in _results(each)),
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _guidelines() -> Iterator[dict[str, Any]]:
    for rule in GUIDELINES.values():
        yield {
            "id": rule.id,
            "shortDescription": {"text": rule.asks},
            "help": {"text": rule.advice},
            "defaultConfiguration": {"level": LEVELS[rule.level]},
            "properties": {"tags": [rule.level, rule.source]},
        }


def _own_rules() -> Iterator[dict[str, Any]]:
    for rule_id, (level, asks) in _OWN_RULES.items():
        configuration = {"level": level}
        yield {"id": rule_id, "shortDescription": {"text": asks}, "defaultConfiguration": configuration}


def _results(each: CheckedDefinition) -> Iterator[dict[str, Any]]:
    name = each.definition.name
    for fault in each.faults:
        yield _result(INVALID, "error", f"{name}: {fault.reason}", fault.place)
    for refusal in each.refusals:
        yield _result(REFUSED, "error", f"{name}: {refusal}", each.definition.place)
    for finding in each.findings:
        yield _of_finding(each, finding)
    for place, stranger in each.strangers:
        yield _result(UNKNOWN, "warning", f"{name}: {stranger}", place)
    for place, found in each.without_effect:
        yield _result(NO_EFFECT, "warning", f"{name}: {found}", place)


def _of_finding(each: CheckedDefinition, finding: GuidelineFinding) -> dict[str, Any]:
    text = f"{each.definition.name}: {finding.found}. {finding.advice}"
    result = _result(finding.rule.id, LEVELS[finding.rule.level], text, each.definition.found_at(finding))
    where = {"fullyQualifiedName": f"{each.definition.name} {finding.within} {finding.pointer}"}
    result["locations"][0]["logicalLocations"] = [where]
    if finding.waived is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.waived}]
    return result


def _result(rule_id: str, level: str, text: str, place: FileLine) -> dict[str, Any]:
    file = Path(place.file)
    uri = file.as_uri() if file.is_absolute() else quote(file.as_posix())
    located = {"artifactLocation": {"uri": uri}, "region": {"startLine": place.line}}
    return {
        "ruleId": rule_id,
        "ruleIndex": _RULES[rule_id],
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": located}],
    }
