"""Tells what a check has found: as tables for people, as an object for programs."""

from typing import TYPE_CHECKING, Any

from penstock.cli.event_line import bare
from penstock.cli.event_type.against import Against
from penstock.cli.event_type.checked import Check, CheckedDefinition
from penstock.cli.output import counted, print_table, say
from penstock.schema.guidelines import GuidelineFinding

if TYPE_CHECKING:
    from penstock.client import Compatibility

_COLUMNS = ("where", "level", "guideline", "what was found", "what to do, or why it is waived")


def as_object(check: Check) -> dict[str, Any]:
    """Return what was found for programs."""
    return {
        "good": check.is_good,
        "errors": check.error_count,
        "must": check.count("MUST"),
        "should": check.count("SHOULD"),
        "waived": check.waived_count,
        "unreadable": [{**each.place._asdict(), "reason": each.reason} for each in check.unreadable],
        "event_types": [_event_type(each) for each in check.definitions],
    }


def show(check: Check) -> None:
    """Print what was found for people."""
    for wrong in check.unreadable:
        say(bare(f"{wrong.place}: {wrong.reason}"))
    for each in check.definitions:
        _show(each)
    parts = [
        counted(len(check.definitions), "event type"),
        counted(check.error_count, "error"),
        f"{check.count('MUST')} MUST and {check.count('SHOULD')} SHOULD not kept",
        f"{check.waived_count} waived",
    ]
    say(", ".join(parts))


def _event_type(each: CheckedDefinition) -> dict[str, Any]:
    definition = each.definition
    return {
        "name": definition.value.get("name"),
        **definition.place._asdict(),
        "errors": [{**fault.place._asdict(), "reason": fault.reason} for fault in each.faults],
        "findings": [_finding(each, finding) for finding in each.findings],
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


def _finding(each: CheckedDefinition, finding: GuidelineFinding) -> dict[str, Any]:
    return {
        "guideline": finding.rule.id,
        "level": finding.rule.level,
        "within": finding.within,
        "pointer": finding.pointer,
        **each.definition.found_at(finding)._asdict(),
        "found": finding.found,
        "advice": finding.advice,
        "waived": finding.waived,
    }


def _show(each: CheckedDefinition) -> None:
    say(bare(f"{each.definition.place}  {each.definition.name}"))
    for note in each.definition.notes:
        say(bare(f"  {note}"))
    rows: list[tuple[object, ...]] = [(fault.place, "ERROR", "", fault.reason, "") for fault in each.faults]
    rows += [_row(each, finding) for finding in each.findings]
    rows += [
        (place, "WARNING", "", f"`{'.'.join(found.at)}` means nothing to a hub", _advice(found.suggestion))
        for place, found in each.strangers
    ]
    rows += [
        (place, "WARNING", "", f"`{found.field}` has no effect", f"{found.reason}.")
        for place, found in each.without_effect
    ]
    if rows:
        print_table(_COLUMNS, [[bare(str(cell)) for cell in row] for row in rows])
    if each.against:
        _show_against(each.against)
    elif not rows:
        say("  keeps all guidelines that can be checked")


def _row(each: CheckedDefinition, finding: GuidelineFinding) -> tuple[object, ...]:
    level = finding.rule.level if finding.waived is None else "waived"
    advice = finding.advice if finding.waived is None else finding.waived
    return each.definition.found_at(finding), level, finding.rule.id, finding.found, advice


def _advice(meant: str | None) -> str:
    return f"Is it `{meant}`?" if meant else "It is kept as it is."


def _show_against(found: Against) -> None:
    if found.version is None:
        say(f"  {found.url} has no such event type: it would be created")
        return
    say(f"  at {found.url}: {_fate(found)}")
    for refusal in found.refused:
        say(bare(f"  refused: {refusal}"))
    for difference in found.plan.differences:
        say(bare(f"  {difference}"))
    if found.schema and found.schema.changes:
        _show_changes(found)
    if found.groups:
        say(bare(f"  read by {', '.join(f'{group.name} ({group.kind})' for group in found.groups)}"))
    else:
        say("  no consumer group reads it")


def _fate(found: Against) -> str:
    if found.refused:
        return "it would be refused"
    if not found.plan.steps:
        return "it is so already"
    told = []
    if found.plan.partitions:
        before, after = found.plan.partitions
        told.append(f"{before} -> {after} partitions, after which keys may fall in other ones")
    if found.schema and found.schema.version != found.version:
        told.append(f"schema {found.version} -> {found.schema.version}: {_who_can_stay(found.schema)}")
    return "; ".join(told) or "it would be changed"


def _who_can_stay(schema: "Compatibility") -> str:
    can = {"producers": schema.producers, "consumers": schema.consumers}
    stay = " and ".join(who for who, certain in can.items() if certain)
    look = " and ".join(who for who, certain in can.items() if not certain)
    parts = [f"{stay} can stay as they are" if stay else "", f"look at what {look} do" if look else ""]
    return ", ".join(filter(None, parts))


def _show_changes(found: Against) -> None:
    assert found.schema  # It was looked at before.
    certain = {True: "can stay", False: "look"}
    rows = [
        (each.pointer, each.level, each.says, certain[each.producers], certain[each.consumers],
         f"refused: {each.instead}" if each.refused else "")
        for each in found.schema.changes
    ]  # fmt: skip
    columns = ("where", "level", "change", "producers", "consumers", "")
    print_table(columns, [[*map(bare, row)] for row in rows])
