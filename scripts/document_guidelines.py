"""Writes docs/guidelines.md from the guidelines themselves: `.venv/bin/python scripts/document_guidelines.py`."""

from itertools import groupby
from pathlib import Path

from penstock.schema.guidelines import GUIDELINES, Guideline
from penstock.schema.guidelines.personal_data_terms import KINDS, PersonalDataKind

PAGE = Path(__file__).parents[1] / "docs" / "guidelines.md"

HEAD = """\
# Event guidelines

<!-- Written by scripts/document_guidelines.py from src/penstock/schema/guidelines: change it there, run it again. -->

Rules for event types that others read: Zalando's event guidelines for Nakadi, and ZeroEventHub's advice on partitions.
Check files without a hub:

```sh
penstock event-type check event-types/*.yaml
```

The command exits with 1 if a MUST is broken ([options](reference/cli/event-types.md#penstock-event-type-check)). A
hub warns by `Warning: 299` headers, or refuses with [`serve --guidelines refuse`](reference/cli/serve.md). Guidelines
that no definition can break are listed for people to judge.

## A definition that keeps them all

```yaml
name: sales.orders
owning_application: shop
category: data
compatibility_mode: compatible
partition_strategy: hash
partition_key_fields: [number]
partition_count: 4
ordering_key_fields: [data.version]
annotations:
  penstock/entity-key-fields: number
schema:
  type: object
  required: [number, version]
  properties:
    number: {type: string}
    version: {type: integer}
    customer_id: {type: string}
    total_cents: {type: integer}
```

## How fields are found

- **Id of the business process:** a required field with a usual name, such as `bp_id`, `business_process_id` or
  `process_id`, or the path in the annotation `penstock/process-id-field`, such as `order.number`.
- **Entity of a data change:** a required field such as `id`, or named after the event type, as `order_id` for
  `sales.orders`; or the partition key; or the fields in the annotation `penstock/entity-key-fields`, separated by
  commas.
- **Moments:** by their `format`, else by their name (`…_at`, `…_date`, `timestamp`).
- **Personal data:** by words of a field's name, see [below](#personal-data-by-its-name).

Of a data change, `ordering_key_fields` are paths into the whole event, such as `data.version`; `partition_key_fields`
begin inside `data`, as with Nakadi. Annotations may be written either way.

## Waivers

An annotation with a reason waives a guideline:

```yaml
annotations:
  penstock.waiver/personal-data: The courier needs the phone number; agreed with data protection on 2026-11-02.
```

A waived finding is listed with its reason, and does not fail the check. It holds for the whole event type, or, with a
period and a path after the id, for that field and its parts only. Use it for false findings, too:

```yaml
annotations:
  penstock.waiver/personal-data.courier.phone: The recipient calls the courier; agreed with data protection.
  penstock.waiver/personal-data.device_id: Counts the sensors of our own machines; no person carries one.
```

The path has the names of the fields from the outside inwards, without arrays. After the slash a key has at most 63
characters of `a`-`z`, `A`-`Z`, `0`-`9`, `-`, `_` and `.`; waive other fields by the object around them.

## Personal data by its name

The check looks for whole words in English, German, French, Spanish, Italian, Portuguese, Dutch, Norwegian, Danish and
Swedish, in snake case, camel case or with accents: `date_of_birth`, `dateOfBirth`, `geburtsdatum`, `fødselsdato`. It
finds `ip_address`, not `ship` or `ip_version`.

- A **name** is personal if it belongs to a person: `customer_name`, `customer.name`, or `name` in `crm.customers`; not
  `product.name` or `airport_name`. `first_name` always is.
- An **address**, phone number, account or device is personal unless it belongs to an organisation or a thing:
  `airport.address`, `store_phone`, `server_ip`.
- Fields with `true` or `false`, fixed values (`enum`), or a number of such things are not personal.

| kind | what it holds | such as |
|---|---|---|
{kinds}
The words and their sources are in
[`personal_data_terms.py`](../src/penstock/schema/guidelines/personal_data_terms.py). A field called
`note` may hold anything, so the check does not replace the review of [`personal-data-access`](#personal-data-access).

## In CI

Check before anything is registered:

```sh
penstock event-type check event-types/*.yaml --against https://hub.example
```

This also fails if the hub would refuse the change. After the merge, `penstock event-type apply event-types/*.yaml
--url https://hub.example` applies it. `--output sarif` writes findings for code review tools; run it in the root of the
repository. On GitHub:

```text
- run: penstock event-type check event-types/*.yaml --output sarif > event-types.sarif
- uses: github/codeql-action/upload-sarif@v3
  if: always()
  with:
    sarif_file: event-types.sarif
```

A MUST is an `error`, a SHOULD a `warning`; waived findings are suppressed, with the reason.

"""


def render() -> str:
    """Return the page."""
    sections = (
        f"## {_heading(source)}\n\n{''.join(map(_section, rules))}"
        for source, rules in groupby(_rules(), lambda rule: rule.source)
    )
    kinds = "".join(map(_kind, KINDS))
    return f"{HEAD.replace('{kinds}', kinds)}{_overview()}{''.join(sections)}".rstrip("\n") + "\n"


def _overview() -> str:
    """Return links to all guidelines, by level and by who judges."""
    rows = ""
    for level, is_checked in [(level, each) for level in ("MUST", "SHOULD", "MAY") for each in (True, False)]:
        links = [
            f"[`{rule.id}`](#{rule.id})" for rule in _rules() if (rule.level, rule.is_checked) == (level, is_checked)
        ]
        if links:
            rows += f"- **{level}, {'checked' if is_checked else 'for people'}:** {', '.join(links)}\n"
    return f"## All of them\n\n{rows}\n"


def _rules() -> list[Guideline]:
    """Return all guidelines, those with one source beside each other, in the order of the first of each."""
    sources = list(dict.fromkeys(rule.source for rule in GUIDELINES.values()))
    return sorted(GUIDELINES.values(), key=lambda rule: sources.index(rule.source))


def _kind(kind: PersonalDataKind) -> str:
    names = [name for names in (kind.always, kind.unless_of_things, kind.of_people) for name in names.split()[:3]]
    return f"| {kind.id} | {kind.holds} | {', '.join(f'`{name}`' for name in names[:4])} |\n"


def _heading(source: str) -> str:
    return source.replace("; ", ", and: ")


def _section(rule: Guideline) -> str:
    judged = "" if rule.is_checked else " For people to judge."
    return f"### `{rule.id}`\n\n**{rule.level}.** {rule.asks} {rule.advice}{judged}\n\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
