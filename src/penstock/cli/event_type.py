"""`penstock event-type`: creates event types, shows and deletes them, and keeps them as files define them."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import URL, OutputOption, UrlOption, YesOption, check_url
from penstock.cli.streams import utf8

if TYPE_CHECKING:
    from penstock.cli.definitions.checks import Check, CheckedDefinition, EventTypePlan, HubComparison
    from penstock.cli.definitions.definition import Definition
    from penstock.cli.definitions.document import Unreadable
    from penstock.cli.failures import CommandFailure
    from penstock.client import Client, PartitionOffsets

BROKEN_SHOWN_MAX: Final = 10
NAMES_SHOWN_MAX: Final = 5

Given = dict[str, Any]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The event type's name, such as order.placed.")]
FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="Definitions in YAML or JSON, one or many a file; - is stdin.")
]

app = group("Create event types, show and delete them; check and apply their files.", no_args_is_help=True)


@app.command(
    epilog=examples(
        "penstock event-type create order.placed",
        "penstock event-type create order.placed --partitions 4 --partition-key-field order_id",
        "penstock event-type create --file order-placed.json",
    )
)
def create(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Its name; with --file it may be left out.")
    ] = None,
    *,
    category: Annotated[
        Literal["undefined", "business", "data"] | None,
        typer.Option(help="undefined: any object (the default). business: with metadata. data: a change of data."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many partitions; 1 unless given.")
    ] = None,
    partition_strategy: Annotated[
        Literal["random", "hash", "user_defined"] | None,
        typer.Option(help="How an event's partition is chosen; hash if there is a key field, else random."),
    ] = None,
    partition_key_field: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A field whose value is part of the key, such as customer.id. Repeatable."),
    ] = None,
    max_event_bytes: Annotated[
        int | None,
        typer.Option(min=1, metavar="BYTES", help="How long a line of its feed may be; see the docs."),
    ] = None,
    owning_application: Annotated[str | None, typer.Option(metavar="NAME", help="Who publishes these events.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A definition in Nakadi's shape, as JSON; - is stdin."),
    ] = None,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Create an event type. Its feed has the same name.

    Options override the file.
    """
    from penstock.cli.event_line import bare
    from penstock.cli.output import print_json, say, tell
    from penstock.core.registry.definition import unknown_members

    traits: Given = {
        "name": name,
        "category": category,
        "partition_count": partitions,
        "partition_strategy": partition_strategy or ("hash" if partition_key_field else None),
        "partition_key_fields": partition_key_field or None,
        "max_event_bytes": max_event_bytes,
        "owning_application": owning_application,
    }
    definition = _read_json(file) if file is not None else {}
    definition |= {key: value for key, value in traits.items() if value is not None}
    name = definition.pop("name", None)
    if not isinstance(name, str):
        raise typer.BadParameter("give the event type a NAME, or a --file that has one")
    _check_key_fields(definition)
    for stranger in unknown_members(definition):
        tell(bare(f"{name}: {stranger}"))
    with _open(url) as client:
        client.create_event_type(name, more=definition)
        made = client.event_type(name)
    if output == "json":
        print_json(made)
    else:
        say(f"created {name}: {_partitioning(made)}")


def _check_key_fields(definition: Given) -> None:
    """Refuse key fields with a strategy that ignores them.

    Raises:
        BadParameter: the strategy is `random` or `user_defined`, and there are key fields.
    """
    strategy = str(definition.get("partition_strategy") or "random").lower()
    if definition.get("partition_key_fields") and strategy in {"random", "user_defined"}:
        chosen = "at random" if strategy == "random" else "by the producer"
        wrong = f"partitions are chosen {chosen} (partition_strategy is {strategy}), so key fields have no effect"
        right = "use --partition-strategy hash, or leave the key fields out"
        raise typer.BadParameter(f"{wrong}: {right}", param_hint="--partition-key-field")


def _read_json(file: Path) -> Given:
    """Return the JSON object in *file*.

    Raises:
        BadParameter: the file cannot be read, or holds something else.
    """
    import msgspec

    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return msgspec.json.decode(raw, type=Given)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--file") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} is not a JSON object: {error}", param_hint="--file") from error


@app.command("list")
def list_all(url: UrlOption = URL, output: OutputOption = "text") -> None:
    """List all event types."""
    from penstock.cli.output import print_json, print_table, say

    with _open(url) as client:
        found = client.event_types()
    if output == "json":
        print_json(found)
    elif found:
        columns = ("name", "category", "partitions", "chosen by", "owner")
        print_table(columns, [[*map(str, _list_row(each))] for each in found])
    else:
        say("There are no event types yet: create one with `penstock event-type create NAME`.")


@app.command()
def show(name: NameArgument, *, url: UrlOption = URL, output: OutputOption = "text") -> None:
    """Show an event type, and the events in each of its partitions."""
    from penstock.cli.output import plural, print_json, print_table, say

    with _open(url) as client:
        found, partitions = client.event_type(name), client.partitions(name)
    if output == "json":
        print_json(found | {"partitions": [_partition_object(each) for each in partitions]})
        return
    held = sum(each.head - each.oldest for each in partitions)
    say(f"{name}: {found['category']}, {_partitioning(found)}")
    say(f"owner {found.get('owning_application') or '-'}, created {found['created_at']}, {plural(held, 'event')}")
    if (limit := found.get("max_event_bytes")) is not None:
        say(f"lines of its feed have at most {limit} bytes")
    rows = [[each.partition, each.oldest, each.head, each.head - each.oldest] for each in partitions]
    print_table(("partition", "first offset", "next offset", "events"), rows)


@app.command()
def delete(
    name: NameArgument,
    *,
    yes: YesOption = False,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Delete an event type with all its events, after asking."""
    from penstock.cli.asking import confirm
    from penstock.cli.output import plural, print_json, say

    with _open(url) as client:
        held = sum(each.head - each.oldest for each in client.partitions(name))
        if not yes:
            confirm(f"Delete {name} and its {plural(held, 'event')} for ever?")
        client.delete_event_type(name)
    if output == "json":
        print_json({"name": name, "deleted_events": held})
    else:
        say(f"deleted {name} and its {plural(held, 'event')}")


def _list_row(found: Given) -> tuple[str, str, str, str, str]:
    fields = ", ".join(found.get("partition_key_fields") or ())
    strategy = found.get("partition_strategy", "random")
    chosen = f"{strategy} of {fields}" if strategy == "hash" else strategy
    owner = found.get("owning_application") or "-"
    return found["name"], found["category"], str(found["partition_count"]), chosen, owner


def _partitioning(found: Given) -> str:
    _, _, count, chosen, _ = _list_row(found)
    return f"1 partition ({chosen})" if count == "1" else f"{count} partitions ({chosen})"


def _partition_object(offsets: "PartitionOffsets") -> Given:
    return {
        "partition": offsets.partition,
        "first_offset": offsets.oldest,
        "next_offset": offsets.head,
        "events": offsets.head - offsets.oldest,
    }


def _check_url(url: str | None) -> str | None:
    return None if url is None else check_url(url)


@app.command(
    epilog=examples(
        "penstock event-type check event-types/*.yaml",
        "penstock event-type check event-types/*.yaml --against http://localhost:8080",
        "penstock event-type check event-types/*.yaml --output sarif > event-types.sarif",
    ),
)
def check(
    files: FilesArgument,
    *,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Also tell what they would do to the event types of the hub there, and who reads those.",
            callback=_check_url,
        ),
    ] = None,
    output: Annotated[
        Literal["text", "json", "sarif"],
        typer.Option(
            "--output",
            "-o",
            envvar="PENSTOCK_OUTPUT",
            help="text is for people, json for programs, sarif for tools that show findings beside the lines.",
        ),
    ] = "text",
) -> None:
    """Check definitions of event types before anything is registered; needs no hub.

    Each definition must be acceptable to a hub, and is checked against the event guidelines. The command ends with 1 if
    one is not acceptable, or breaks a MUST without a waiver: an annotation `penstock.waiver/GUIDELINE` with the reason.
    """
    from penstock.cli.definitions.checks import Check, check_definitions

    found, unreadable = _read_files(files)
    definitions = check_definitions(found)
    if against is not None:
        definitions = _compare_all(against, definitions)
    done = Check(tuple(definitions), tuple(unreadable))
    _print_check(done, output)
    if not done.is_good:
        raise typer.Exit(1)


def _compare_all(url: str, definitions: "list[CheckedDefinition]") -> "list[CheckedDefinition]":
    """Return *definitions* with their comparison to the hub at *url*, but for invalid ones.

    Raises:
        CommandFailure: the hub is unreachable.
        PenstockError: the hub answers with an error.
    """
    from penstock.cli.definitions.checks import compare_with_hub
    from penstock.cli.failures import CommandFailure
    from penstock.errors import Unreachable

    try:
        with _open(url) as client:
            return [
                each if each.faults else replace(each, against=compare_with_hub(url, client, each.definition.value))
                for each in definitions
            ]
    except Unreachable as error:
        if error.code == "proxy-unreachable":
            raise
        raise CommandFailure(
            error.detail, "Is the hub running? Name another one with --against, or check without."
        ) from error


def _print_check(done: "Check", output: str) -> None:
    from penstock.cli.definitions.reports import as_object, print_report
    from penstock.cli.output import print_json

    if output == "sarif":
        from penstock.cli.definitions.reports import as_sarif

        print_json(as_sarif(done))
    elif output == "json":
        print_json(as_object(done))
    else:
        print_report(done)


@app.command(
    epilog=examples(
        "penstock event-type apply event-types/*.yaml --dry-run",
        "penstock event-type apply event-types/*.yaml",
        "penstock event-type export | penstock event-type apply - --url http://other:8080",
    ),
)
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
    """Apply definitions in files to a hub: create missing event types, replace different ones.

    All files are checked, and the hub checks every change, before anything is written. If a change would be refused,
    nothing is written. Equal event types are left alone; partitions are added, never removed; nothing is deleted.
    """
    from penstock.cli.definitions.checks import compare_with_hub
    from penstock.cli.output import print_json

    definitions = _read_valid(files, dry_run=dry_run)
    with _open(url) as client:
        plans = [compare_with_hub(url, client, each.value, allow_reordering=allow_reordering) for each in definitions]
        if not dry_run:
            _check_refusals(plans)
            plans = _apply_all(client, plans)
    if output == "json":
        shown = [each.as_object() | {"name": each.plan.name} for each in plans]
        print_json({"dry_run": dry_run, "event_types": [_plan_object(each) for each in shown]})
    else:
        for each in plans:
            _show_plan(each, dry_run=dry_run)
    if dry_run and any(each.refused for each in plans):
        raise typer.Exit(1)


def _read_valid(files: Sequence[Any], *, dry_run: bool) -> "list[Definition]":
    """Return the definitions in *files*, after printing what is odd about them.

    Members without effect are printed only in a *dry_run*: the hub warns of them otherwise.

    Raises:
        CommandFailure: a definition cannot be read, or no hub would take it; lists all such faults.
    """
    from penstock.cli.definitions.checks import check_definitions
    from penstock.cli.event_line import bare
    from penstock.cli.failures import CommandFailure
    from penstock.cli.output import tell

    found, unreadable = _read_files(files)
    checks = check_definitions(found)
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
    """Print the event types that break a MUST of the guidelines."""
    from penstock.cli.event_line import bare
    from penstock.cli.output import plural, tell

    lines = [
        f"{each.definition.name}: {broken} MUST of the guidelines not kept; `event-type check` says more"
        for each in checks
        if (broken := sum(finding.rule.level == "MUST" and finding.waived is None for finding in each.findings))
    ]
    for line in lines[:BROKEN_SHOWN_MAX]:
        tell(bare(line))
    if more := len(lines[BROKEN_SHOWN_MAX:]):
        tell(f"and {plural(more, 'event type')} more")


def _check_refusals(plans: "Sequence[HubComparison]") -> None:
    """Check that the hub would take all changes.

    Raises:
        CommandFailure: it would refuse one; lists all refusals.
    """
    from penstock.cli.event_line import bare
    from penstock.cli.failures import CommandFailure

    wrong = [bare(f"{each.plan.name}: {refusal}") for each in plans for refusal in each.refused]
    if wrong:
        hint = "`penstock event-type check FILE --against URL` shows every change, and what to do instead."
        raise CommandFailure("nothing was changed, since the hub would refuse it", "\n".join([*wrong, hint]))


def _apply_all(client: "Client", plans: "Sequence[HubComparison]") -> "list[HubComparison]":
    """Carry out *plans*, and return those that were carried out.

    Raises:
        CommandFailure: the hub refuses a change; names the event types that were changed before.
    """
    from penstock.errors import PenstockError

    done = []
    for number, each in enumerate(plans):
        try:
            done.append(_apply_one(client, each))
        except PenstockError as error:
            raise _describe_half_way(error.detail, plans, number) from error
        if refused := done[-1].refused:
            raise _describe_half_way(refused[0], plans, number)
    return done


def _apply_one(client: "Client", each: "HubComparison") -> "HubComparison":
    """Carry out the plan for one event type, or a new plan if the event type was created in the meantime."""
    from penstock.cli.definitions.checks import compare_with_hub
    from penstock.errors import EventTypeExists

    try:
        _run_steps(client, each.plan)
    except EventTypeExists:
        each = compare_with_hub(each.url, client, each.plan.body, allow_reordering=each.plan.allow_reordering)
        if not each.refused:
            _run_steps(client, each.plan)
    return each


def _run_steps(client: "Client", plan: "EventTypePlan") -> None:
    for step in plan.steps:
        match step:
            case "create":
                client.create_event_type(plan.name, more=plan.body)
            case "replace":
                client.replace_event_type(plan.body, allow_reordering=plan.allow_reordering)
            case "grow":
                assert plan.partitions  # There is no such step without them.
                client.grow_partitions(plan.name, plan.partitions[1])


def _describe_half_way(reason: str, plans: "Sequence[HubComparison]", number: int) -> "CommandFailure":
    """Return the failure for the plan at *number*, which names the event types that were changed before it."""
    from penstock.cli.failures import CommandFailure

    done = [each.plan.name for each in plans[:number] if each.plan.steps]
    rest = [each.plan.name for each in plans[number + 1 :] if each.plan.steps]
    lines = [f"Done before it: {_join_names(done)}. Not tried: {_join_names(rest)}."]
    lines.append("Run it again when that is mended: what is done is left alone.")
    return CommandFailure(f"{plans[number].plan.name}: {reason}", "\n".join(lines))


def _join_names(names: Sequence[str]) -> str:
    """Return *names* in one line, at most `NAMES_SHOWN_MAX` of them.

    >>> _join_names([]), _join_names("abcde"), _join_names("abcdefg")
    ('nothing', 'a, b, c, d, e', 'a, b, c, d, e and 2 more')
    """
    more = len(names) - NAMES_SHOWN_MAX
    return (", ".join(names[:NAMES_SHOWN_MAX]) or "nothing") + (f" and {more} more" if more > 0 else "")


def _plan_object(shown: dict[str, Any]) -> dict[str, Any]:
    keys = ("name", "steps", "refused", "differences", "partition_count", "schema_version", "schema")
    return {key: shown[key] for key in keys}


def _show_plan(each: "HubComparison", *, dry_run: bool) -> None:
    from penstock.cli.definitions.checks import diff_schemas
    from penstock.cli.event_line import bare
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
                say(f"{plan.name} {would}replaced{_version_change(each)}")
            case "grow":
                before, after = plan.partitions or (0, 0)
                say(f"{plan.name} {would}given more partitions: {before} -> {after}")
    for refusal in each.refused:
        say(bare(f"  the hub would refuse it: {refusal}"))
    for difference in plan.differences:
        say(bare(f"  {difference}"))
    if dry_run and plan.schemas:
        for line in diff_schemas(*plan.schemas):
            say(bare(f"  {line}"))


def _version_change(each: "HubComparison") -> str:
    if each.schema is None or each.schema.version == each.version:
        return ""
    return f", schema {each.version} -> {each.schema.version}"


@app.command(
    epilog=examples(
        "penstock event-type export > event-types.yaml",
        "penstock event-type export order.placed order.cancelled --output json",
        "penstock event-type export --asyncapi > asyncapi.yaml",
    )
)
def export(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Event types; without one all that you may see.")
    ] = None,
    *,
    asyncapi: Annotated[
        bool, typer.Option("--asyncapi", help="Write an AsyncAPI 3.0 document of them, for catalogues and generators.")
    ] = False,
    url: UrlOption = URL,
    output: Annotated[Literal["yaml", "json"], typer.Option("--output", "-o", help="The format.")] = "yaml",
) -> None:
    """Write event types of a hub to standard output, as files that `apply` reads or as an AsyncAPI document.

    Event types whose events come from the hub alone are left out of the former unless they are named.
    """
    from penstock.cli.output import print_json

    wanted = list(dict.fromkeys(names or ()))
    with _open(url) as client:
        if asyncapi:
            written: Any = client.asyncapi(wanted)
        else:
            shown = [client.event_type(name) for name in wanted] if wanted else _list_created(client)
            written = [_export(each) for each in shown]
    if output == "yaml":
        _print_yaml(written)
    else:
        print_json(written)


def _list_created(client: "Client") -> list[Given]:
    """Return the event types that clients have created."""
    from penstock.hub.log.publish import OWN_EVENT_TYPES

    return [each for each in client.event_types() if each["name"] not in OWN_EVENT_TYPES]


def _export(shown: Given) -> Given:
    """Return a definition as files have it: the schema as an object, and without what the hub has recorded."""
    from msgspec import json

    kept = {name: value for name, value in shown.items() if name not in ("schema", "created_at", "updated_at")}
    return kept | {"schema": json.decode(shown["schema"]["schema"])}


@app.command()
def guidelines(output: OutputOption = "text") -> None:
    """List the event guidelines: those that `check` checks, and those that are for people to judge."""
    from penstock.cli.output import print_json, print_table
    from penstock.schema.guidelines import GUIDELINES

    if output == "json":
        print_json(
            [
                {
                    "id": rule.id,
                    "level": rule.level,
                    "asks": rule.asks,
                    "advice": rule.advice,
                    "checked": rule.is_checked,
                }
                for rule in GUIDELINES.values()
            ]
        )
        return
    judge = {True: "check", False: "people"}
    rows = [[rule.id, rule.level, judge[rule.is_checked], rule.asks, rule.advice] for rule in GUIDELINES.values()]
    print_table(("guideline", "level", "judged by", "what it asks", "what to do"), rows)


@app.command(
    "from-model",
    epilog=examples(
        "penstock event-type from-model shop.events:OrderPlaced --category business --owning-application shop",
        "penstock event-type from-model shop.events:OrderPlaced --yaml > event-types/order.placed.yaml",
        "penstock event-type from-model shop.events:OrderPlaced | penstock event-type create --file -",
    ),
)
def from_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:CLASS",
            help="A msgspec Struct, a dataclass or a pydantic model, as in shop.events:OrderPlaced.",
        ),
    ],
    *,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The event type's name; order.placed for OrderPlaced.")
    ] = None,
    category: Annotated[
        Literal["undefined", "business", "data"] | None,
        typer.Option(help="undefined (the default). business: its events get metadata. data: the class is the record."),
    ] = None,
    owning_application: Annotated[str | None, typer.Option(metavar="NAME", help="Who publishes these events.")] = None,
    compatibility_mode: Annotated[
        Literal["compatible", "forward", "none"], typer.Option(help="How the schema may change later on.")
    ] = "compatible",
    partition_key_field: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A member whose value is part of the key, such as customer.id. Repeatable."),
    ] = None,
    ordering_key_field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A member by which events are in order, such as version; of data data.version. Repeatable.",
        ),
    ] = None,
    schema_only: Annotated[bool, typer.Option("--schema-only", help="Print the schema alone.")] = False,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print YAML, in which the schema can be read.")] = False,
) -> None:
    """Print the definition of an event type whose events are instances of a class of yours; needs no hub.

    The class is imported from the current directory, or from where Python finds its module. Of DataChange[Order],
    under a name of its own, the record is taken, and the category is data.
    """
    from penstock.cli.definitions.model import define_event_type, import_class

    traits: dict[str, Any] = {
        "name": name,
        "category": category,
        "owning_application": owning_application,
        "partition_strategy": "hash" if partition_key_field else None,
        "partition_key_fields": partition_key_field,
        "ordering_key_fields": ordering_key_field,
        "compatibility_mode": compatibility_mode,
    }
    given = {trait: value for trait, value in traits.items() if value is not None}
    definition, schema = define_event_type(model, import_class(model), given)
    if yaml:
        _print_yaml(schema if schema_only else definition | {"schema": schema})
    else:
        from penstock.cli.output import print_json

        print_json(schema if schema_only else definition)


def _print_yaml(value: Any) -> None:
    import yaml
    from msgspec import json

    apart = json.decode(json.encode(value))  # What stands twice shall be written twice, as a person would.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # The former is ten times as fast, and not everywhere.
    yaml.dump(apart, utf8(sys.stdout), dumper, sort_keys=False, allow_unicode=True, width=100)


def _read_files(files: Sequence[Path]) -> "tuple[list[Definition], list[Unreadable]]":
    """Return the definitions in *files*, and the errors of those that are malformed.

    Raises:
        BadParameter: a file cannot be opened or read.
    """
    from penstock.cli.definitions.definition import read_definitions

    try:
        return read_definitions(files)
    except OSError as error:
        name = error.filename or "standard input"
        raise typer.BadParameter(f"{name} cannot be read: {error.strerror}", param_hint="FILE") from error


def _open(url: str) -> "Client":
    """Return a client of the hub at *url* that does not retry: a person rather tries again than waits."""
    from penstock.cli.hub import open_client

    return open_client(url, retry_timeout=0)
