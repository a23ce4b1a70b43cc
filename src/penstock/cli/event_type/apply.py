"""`penstock event-type apply`: has a hub's event types be as files define them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.event_type.files import FilesArgument, read
from penstock.cli.options import URL, OutputOption, UrlOption

if TYPE_CHECKING:
    from penstock.cli.definition.definition import Definition
    from penstock.cli.event_type.against import Against
    from penstock.cli.event_type.checked import CheckedDefinition
    from penstock.cli.event_type.plan import EventTypePlan
    from penstock.cli.failures import CommandFailure
    from penstock.client import Client

_BROKEN_TOLD_MAX: Final = 10
_NAMES_TOLD_MAX: Final = 5


def apply(
    files: FilesArgument,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done; ends with 1 where it would be refused.")
    ] = False,
    allow_reordering: Annotated[
        bool,
        typer.Option(
            "--allow-reordering",
            help="Accept that events of a key lose their order, by another partition_strategy or other key fields.",
        ),
    ] = False,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Let a hub have the event types that files define: create what is missing, replace what differs.

    All files are checked, and the hub is asked whether it would take every change, before anything is written; where
    one would be refused, nothing is. What is so already is left alone; partitions are added, never taken away; nothing
    is deleted.
    """
    from penstock.cli.event_type.against import against
    from penstock.cli.hub import open_client
    from penstock.cli.output import print_json

    definitions = _valid(files, dry_run=dry_run)
    with open_client(url, retry_timeout=0) as client:
        plans = [against(url, client, each.value, allow_reordering=allow_reordering) for each in definitions]
        if not dry_run:
            _refuse(plans)
            plans = _carry_out(client, plans)
    if output == "json":
        shown = [each.as_object() | {"name": each.plan.name} for each in plans]
        print_json({"dry_run": dry_run, "event_types": [_told(each) for each in shown]})
    else:
        for each in plans:
            _show(each, dry_run=dry_run)
    if dry_run and any(each.refused for each in plans):
        raise typer.Exit(1)


def _valid(files: Sequence[Any], *, dry_run: bool) -> "list[Definition]":
    """Return the definitions in *files*.

    Of what has no effect yet in them, the hub warns; in a *dry_run* this does.

    Raises:
        CommandFailure: one of them is none that a hub would take.
    """
    from penstock.cli.event_line import bare
    from penstock.cli.event_type.checked import checked
    from penstock.cli.failures import CommandFailure
    from penstock.cli.output import tell

    found, unreadable = read(files)
    checks = checked(found)
    wrong = [str(each) for each in unreadable]
    wrong += [f"{fault.place}: {each.definition.name}: {fault.reason}" for each in checks for fault in each.faults]
    if wrong:
        raise CommandFailure("nothing was changed, since definitions are wrong", "\n".join(map(bare, wrong)))
    for each in checks:
        for note in each.definition.notes:
            tell(bare(f"{each.definition.name}: {note}"))
        for place, stranger in each.strangers:
            tell(bare(f"{place}: {each.definition.name}: {stranger}"))
        for place, member in each.without_effect if dry_run else ():
            tell(bare(f"{place}: {each.definition.name}: {member}"))
    _tell_broken(checks)
    return found


def _tell_broken(checks: "Sequence[CheckedDefinition]") -> None:
    """Tell which event types do not keep guidelines that others are to be able to rely on."""
    from penstock.cli.event_line import bare
    from penstock.cli.output import counted, tell

    lines = [
        f"{each.definition.name}: {broken} MUST of the guidelines not kept; `event-type check` says more"
        for each in checks
        if (broken := sum(finding.rule.level == "MUST" and finding.waived is None for finding in each.findings))
    ]
    for line in lines[:_BROKEN_TOLD_MAX]:
        tell(bare(line))
    if more := len(lines[_BROKEN_TOLD_MAX:]):
        tell(f"and {counted(more, 'event type')} more")


def _refuse(plans: "Sequence[Against]") -> None:
    from penstock.cli.event_line import bare
    from penstock.cli.failures import CommandFailure

    wrong = [bare(f"{each.plan.name}: {refusal}") for each in plans for refusal in each.refused]
    if wrong:
        hint = "`penstock event-type check FILE --against URL` shows every change, and what to do instead."
        raise CommandFailure("nothing was changed, since the hub would refuse it", "\n".join([*wrong, hint]))


def _carry_out(client: "Client", plans: "Sequence[Against]") -> "list[Against]":
    """Do what is planned, and return what was done."""
    from penstock.errors import PenstockError

    done = []
    for number, each in enumerate(plans):
        try:
            done.append(_done(client, each))
        except PenstockError as error:
            raise _half_way(error.detail, plans, number) from error
        if refused := done[-1].refused:
            raise _half_way(refused[0], plans, number)
    return done


def _done(client: "Client", each: "Against") -> "Against":
    """Do what is planned for one event type; where somebody has created it meanwhile, what is left to do then."""
    from penstock.cli.event_type.against import against
    from penstock.errors import EventTypeExists

    try:
        _do(client, each.plan)
    except EventTypeExists:
        each = against(each.url, client, each.plan.body, allow_reordering=each.plan.allow_reordering)
        if not each.refused:
            _do(client, each.plan)
    return each


def _do(client: "Client", plan: "EventTypePlan") -> None:
    for step in plan.steps:
        match step:
            case "create":
                client.create_event_type(plan.name, more=plan.body)
            case "replace":
                client.replace_event_type(plan.body, allow_reordering=plan.allow_reordering)
            case "grow":
                assert plan.partitions  # There is no such step without them.
                client.grow_partitions(plan.name, plan.partitions[1])


def _half_way(reason: str, plans: "Sequence[Against]", number: int) -> "CommandFailure":
    """Say which event types are done already where one of them could not be."""
    from penstock.cli.failures import CommandFailure

    done = [each.plan.name for each in plans[:number] if each.plan.steps]
    rest = [each.plan.name for each in plans[number + 1 :] if each.plan.steps]
    lines = [f"Done before it: {_listed(done)}. Not tried: {_listed(rest)}."]
    lines.append("Run it again when that is mended: what is done is left alone.")
    return CommandFailure(f"{plans[number].plan.name}: {reason}", "\n".join(lines))


def _listed(names: Sequence[str]) -> str:
    """Return *names* in one line, not all where they are many.

    >>> _listed([]), _listed("abcde"), _listed("abcdefg")
    ('nothing', 'a, b, c, d, e', 'a, b, c, d, e and 2 more')
    """
    more = len(names) - _NAMES_TOLD_MAX
    return (", ".join(names[:_NAMES_TOLD_MAX]) or "nothing") + (f" and {more} more" if more > 0 else "")


def _told(shown: dict[str, Any]) -> dict[str, Any]:
    keys = ("name", "steps", "refused", "differences", "partition_count", "schema_version", "schema")
    return {key: shown[key] for key in keys}


def _show(each: "Against", *, dry_run: bool) -> None:
    from penstock.cli.event_line import bare
    from penstock.cli.event_type.difference import schema_difference
    from penstock.cli.output import say

    plan = each.plan
    would = "would be " if dry_run else ""
    if not plan.steps:
        say(f"{plan.name} is so already")
    for step in plan.steps:
        match step:
            case "create":
                say(f"{plan.name} {would}created")
            case "replace":
                say(f"{plan.name} {would}replaced{_versions(each)}")
            case "grow":
                before, after = plan.partitions or (0, 0)
                say(f"{plan.name} {would}given more partitions: {before} -> {after}")
    for refusal in each.refused:
        say(bare(f"  the hub would refuse it: {refusal}"))
    for difference in plan.differences:
        say(bare(f"  {difference}"))
    if dry_run and plan.schemas:
        for line in schema_difference(*plan.schemas):
            say(bare(f"  {line}"))


def _versions(each: "Against") -> str:
    if each.schema is None or each.schema.version == each.version:
        return ""
    return f", schema {each.version} -> {each.schema.version}"
