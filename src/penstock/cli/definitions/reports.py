"""Reports of a check: tables for people, an object for programs, and SARIF 2.1.0 for tools of code review.

SARIF (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html) has findings that these tools show beside the
lines in question.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from penstock import __version__
from penstock.cli.definitions.checks import Check, CheckedDefinition, HubComparison
from penstock.cli.definitions.document import FileLine
from penstock.cli.event_line import bare
from penstock.cli.output import plural, print_table, say
from penstock.schema.guidelines import GUIDELINES, GuidelineFinding

if TYPE_CHECKING:
    from penstock.client import Compatibility

_COLUMNS: Final = ("where", "level", "guideline", "what was found", "what to do, or why it is waived")
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


def print_report(check: Check) -> None:
    """Print the result of a check for people."""
    for wrong in check.unreadable:
        say(bare(f"{wrong.place}: {wrong.reason}"))
    for each in check.definitions:
        _print_definition(each)
    parts = [
        plural(len(check.definitions), "event type"),
        plural(check.error_count, "error"),
        f"{check.count('MUST')} MUST and {check.count('SHOULD')} SHOULD not kept",
        f"{check.waived_count} waived",
    ]
    say(", ".join(parts))


def _print_definition(each: CheckedDefinition) -> None:
    say(bare(f"{each.definition.place}  {each.definition.name}"))
    for note in each.definition.notes:
        say(bare(f"  {note}"))
    rows: list[tuple[object, ...]] = [(fault.place, "ERROR", "", fault.reason, "") for fault in each.faults]
    rows += [_finding_row(each, finding) for finding in each.findings]
    rows += [
        (place, "WARNING", "", f"`{'.'.join(found.at)}` means nothing to a hub", _advise(found.suggestion))
        for place, found in each.strangers
    ]
    rows += [
        (place, "WARNING", "", f"`{found.field}` has no effect", f"{found.reason}.")
        for place, found in each.without_effect
    ]
    if rows:
        print_table(_COLUMNS, [[bare(str(cell)) for cell in row] for row in rows])
    if each.against:
        _print_comparison(each.against)
    elif not rows:
        say("  keeps all guidelines that can be checked")


def _finding_row(each: CheckedDefinition, finding: GuidelineFinding) -> tuple[object, ...]:
    level = finding.rule.level if finding.waived is None else "waived"
    advice = finding.advice if finding.waived is None else finding.waived
    return each.definition.find_line(finding), level, finding.rule.id, finding.found, advice


def _advise(meant: str | None) -> str:
    return f"Is it `{meant}`?" if meant else "It is kept as it is."


def _print_comparison(found: HubComparison) -> None:
    if found.version is None:
        say(f"  {found.url} has no such event type: it would be created")
        return
    say(f"  at {found.url}: {_describe_outcome(found)}")
    for refusal in found.refused:
        say(bare(f"  refused: {refusal}"))
    for difference in found.plan.differences:
        say(bare(f"  {difference}"))
    if found.schema and found.schema.changes:
        _print_changes(found)
    if found.groups:
        say(bare(f"  read by {', '.join(f'{group.name} ({group.kind})' for group in found.groups)}"))
    else:
        say("  no consumer group reads it")


def _describe_outcome(found: HubComparison) -> str:
    if found.refused:
        return "it would be refused"
    if not found.plan.steps:
        return "it is so already"
    told = []
    if found.plan.partitions:
        before, after = found.plan.partitions
        told.append(f"{before} -> {after} partitions, after which keys may fall in other ones")
    if found.schema and found.schema.version != found.version:
        told.append(f"schema {found.version} -> {found.schema.version}: {_describe_effect(found.schema)}")
    return "; ".join(told) or "it would be changed"


def _describe_effect(schema: "Compatibility") -> str:
    can = {"producers": schema.producers, "consumers": schema.consumers}
    stay = " and ".join(who for who, certain in can.items() if certain)
    look = " and ".join(who for who, certain in can.items() if not certain)
    parts = [f"{stay} can stay as they are" if stay else "", f"look at what {look} do" if look else ""]
    return ", ".join(filter(None, parts))


def _print_changes(found: HubComparison) -> None:
    assert found.schema  # It was looked at before.
    certain = {True: "can stay", False: "look"}
    rows = [
        (each.pointer, each.level, each.says, certain[each.producers], certain[each.consumers],
         f"refused: {each.instead}" if each.refused else "")
        for each in found.schema.changes
    ]  # fmt: skip
    columns = ("where", "level", "change", "producers", "consumers", "")
    print_table(columns, [[*map(bare, row)] for row in rows])


def as_object(check: Check) -> dict[str, Any]:
    """Return the result of a check as an object for programs."""
    return {
        "good": check.is_good,
        "errors": check.error_count,
        "must": check.count("MUST"),
        "should": check.count("SHOULD"),
        "waived": check.waived_count,
        "unreadable": [{**each.place._asdict(), "reason": each.reason} for each in check.unreadable],
        "event_types": [_definition_object(each) for each in check.definitions],
    }


def _definition_object(each: CheckedDefinition) -> dict[str, Any]:
    definition = each.definition
    return {
        "name": definition.value.get("name"),
        **definition.place._asdict(),
        "errors": [{**fault.place._asdict(), "reason": fault.reason} for fault in each.faults],
        "findings": [_finding_object(each, finding) for finding in each.findings],
        "unknown_members": [
            {**place._asdict(), "member": ".".join(found.at), "meant": found.suggestion}
            for place, found in each.strangers
        ],
        "without_effect": [
            {**place._asdict(), "member": found.field, "reason": found.reason} for place, found in each.without_effect
        ],
        "left_out": definition.notes,
        "against": each.against.as_object() if each.against else None,
    }


def _finding_object(each: CheckedDefinition, finding: GuidelineFinding) -> dict[str, Any]:
    return {
        "guideline": finding.rule.id,
        "level": finding.rule.level,
        "within": finding.within,
        "pointer": finding.pointer,
        **each.definition.find_line(finding)._asdict(),
        "found": finding.found,
        "advice": finding.advice,
        "waived": finding.waived,
    }


def as_sarif(check: Check) -> dict[str, Any]:
    """Return the result of a check as a SARIF log of one run."""
    driver = {"name": "penstock", "version": __version__, "rules": [*_sarif_guidelines(), *_sarif_rules()]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [
            *(_sarif_result(INVALID, "error", each.reason, each.place) for each in check.unreadable),
            *(result for each in check.definitions for result in _sarif_results(each)),
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_guidelines() -> Iterator[dict[str, Any]]:
    for rule in GUIDELINES.values():
        yield {
            "id": rule.id,
            "shortDescription": {"text": rule.asks},
            "help": {"text": rule.advice},
            "defaultConfiguration": {"level": LEVELS[rule.level]},
            "properties": {"tags": [rule.level, rule.source]},
        }


def _sarif_rules() -> Iterator[dict[str, Any]]:
    for rule_id, (level, asks) in _OWN_RULES.items():
        configuration = {"level": level}
        yield {"id": rule_id, "shortDescription": {"text": asks}, "defaultConfiguration": configuration}


def _sarif_results(each: CheckedDefinition) -> Iterator[dict[str, Any]]:
    name = each.definition.name
    for fault in each.faults:
        yield _sarif_result(INVALID, "error", f"{name}: {fault.reason}", fault.place)
    for refusal in each.refusals:
        yield _sarif_result(REFUSED, "error", f"{name}: {refusal}", each.definition.place)
    for finding in each.findings:
        yield _sarif_finding(each, finding)
    for place, stranger in each.strangers:
        yield _sarif_result(UNKNOWN, "warning", f"{name}: {stranger}", place)
    for place, found in each.without_effect:
        yield _sarif_result(NO_EFFECT, "warning", f"{name}: {found}", place)


def _sarif_finding(each: CheckedDefinition, finding: GuidelineFinding) -> dict[str, Any]:
    text = f"{each.definition.name}: {finding.found}. {finding.advice}"
    result = _sarif_result(finding.rule.id, LEVELS[finding.rule.level], text, each.definition.find_line(finding))
    where = {"fullyQualifiedName": f"{each.definition.name} {finding.within} {finding.pointer}"}
    result["locations"][0]["logicalLocations"] = [where]
    if finding.waived is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.waived}]
    return result


def _sarif_result(rule_id: str, level: str, text: str, place: FileLine) -> dict[str, Any]:
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
