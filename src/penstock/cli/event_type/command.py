"""`penstock event-type`: creates event types, shows and deletes them, and has them as files define them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.event_type import apply, check, from_model, guidelines
from penstock.cli.helping import examples, group, prose
from penstock.cli.options import URL, OutputOption, UrlOption, YesOption

if TYPE_CHECKING:
    from penstock.client import Client, PartitionOffsets

app = group("Create event types, show and delete them; check and apply their files.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The event type's name, such as order.placed.")]
Given = dict[str, Any]


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

    What options say goes before what the file says.
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
    definition = _read(file) if file is not None else {}
    definition |= {key: value for key, value in traits.items() if value is not None}
    name = definition.pop("name", None)
    if not isinstance(name, str):
        raise typer.BadParameter("give the event type a NAME, or a --file that has one")
    _check_key_fields(definition)
    for stranger in unknown_members(definition):
        tell(bare(f"{name}: {stranger}"))
    with _client(url) as client:
        client.create_event_type(name, more=definition)
        made = client.event_type(name)
    if output == "json":
        print_json(made)
    else:
        say(f"created {name}: {_partitioning(made)}")


@app.command("list")
def list_all(url: UrlOption = URL, output: OutputOption = "text") -> None:
    """List all event types."""
    from penstock.cli.output import print_json, print_table, say

    with _client(url) as client:
        found = client.event_types()
    if output == "json":
        print_json(found)
    elif found:
        columns = ("name", "category", "partitions", "chosen by", "owner")
        print_table(columns, [[*map(str, _row(each))] for each in found])
    else:
        say("There are no event types yet: create one with `penstock event-type create NAME`.")


@app.command()
def show(name: NameArgument, *, url: UrlOption = URL, output: OutputOption = "text") -> None:
    """Show an event type, and what each of its partitions holds."""
    from penstock.cli.output import counted, print_json, print_table, say

    with _client(url) as client:
        found, partitions = client.event_type(name), client.partitions(name)
    if output == "json":
        print_json(found | {"partitions": [_partition(each) for each in partitions]})
        return
    held = sum(each.head - each.oldest for each in partitions)
    say(f"{name}: {found['category']}, {_partitioning(found)}")
    say(f"owner {found.get('owning_application') or '-'}, created {found['created_at']}, {counted(held, 'event')}")
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
    from penstock.cli.output import counted, print_json, say

    with _client(url) as client:
        held = sum(each.head - each.oldest for each in client.partitions(name))
        if not yes:
            confirm(f"Delete {name} and its {counted(held, 'event')} for ever?")
        client.delete_event_type(name)
    if output == "json":
        print_json({"name": name, "deleted_events": held})
    else:
        say(f"deleted {name} and its {counted(held, 'event')}")


app.command(
    help=prose(check.check),
    epilog=examples(
        "penstock event-type check event-types/*.yaml",
        "penstock event-type check event-types/*.yaml --against http://localhost:8080",
        "penstock event-type check event-types/*.yaml --output sarif > event-types.sarif",
    ),
)(check.check)
app.command(
    help=prose(apply.apply),
    epilog=examples(
        "penstock event-type apply event-types/*.yaml --dry-run",
        "penstock event-type apply event-types/*.yaml",
        "penstock event-type list -o json | penstock event-type apply - --url http://other:8080",
    ),
)(apply.apply)
app.command(help=prose(guidelines.guidelines))(guidelines.guidelines)
app.command(
    "from-model",
    help=prose(from_model.from_model),
    epilog=examples(
        "penstock event-type from-model shop.events:OrderPlaced --category business --owning-application shop",
        "penstock event-type from-model shop.events:OrderPlaced --yaml > event-types/order.placed.yaml",
        "penstock event-type from-model shop.events:OrderPlaced | penstock event-type create --file -",
    ),
)(from_model.from_model)


def _check_key_fields(definition: Given) -> None:
    """Refuse key fields where nobody would look at them: whoever gives them means `hash`."""
    strategy = str(definition.get("partition_strategy") or "random").lower()
    if definition.get("partition_key_fields") and strategy in {"random", "user_defined"}:
        chosen = "at random" if strategy == "random" else "by the producer"
        wrong = f"partitions are chosen {chosen} (partition_strategy is {strategy}), so key fields have no effect"
        right = "use --partition-strategy hash, or leave the key fields out"
        raise typer.BadParameter(f"{wrong}: {right}", param_hint="--partition-key-field")


def _client(url: str) -> "Client":
    from penstock.cli.hub import open_client

    return open_client(url, retry_timeout=0)  # Whoever sits before it rather tries again than waits.


def _read(file: Path) -> Given:
    import sys

    import msgspec

    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return msgspec.json.decode(raw, type=Given)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--file") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} is not a JSON object: {error}", param_hint="--file") from error


def _row(found: Given) -> tuple[str, str, str, str, str]:
    fields = ", ".join(found.get("partition_key_fields") or ())
    strategy = found.get("partition_strategy", "random")
    chosen = f"{strategy} of {fields}" if strategy == "hash" else strategy
    owner = found.get("owning_application") or "-"
    return found["name"], found["category"], str(found["partition_count"]), chosen, owner


def _partitioning(found: Given) -> str:
    _, _, count, chosen, _ = _row(found)
    return f"1 partition ({chosen})" if count == "1" else f"{count} partitions ({chosen})"


def _partition(offsets: "PartitionOffsets") -> Given:
    return {
        "partition": offsets.partition,
        "first_offset": offsets.oldest,
        "next_offset": offsets.head,
        "events": offsets.head - offsets.oldest,
    }
