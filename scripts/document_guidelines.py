"""Writes docs/guidelines.md from the guidelines themselves: `.venv/bin/python scripts/document_guidelines.py`."""

from itertools import groupby
from pathlib import Path

from penstock.schema.guidelines import GUIDELINES, Guideline
from penstock.schema.guidelines.personal_data_terms import KINDS, SOURCES, PersonalDataKind

PAGE = Path(__file__).parents[1] / "docs" / "guidelines.md"

HEAD = """\
# Event guidelines

<!-- Written by scripts/document_guidelines.py from src/penstock/core/guidelines: change it there, and run it again. -->

Events that others read are part of a service's interface. These are the rules for event types that are made for
others: Zalando's event guidelines for Nakadi, and what ZeroEventHub says of partitions. Those that a definition can
break are checked; the others are listed for whoever reviews it.

```sh
penstock event-type check event-types/*.yaml
```

needs no hub, and ends with 1 where a MUST is not kept ([command line](reference/cli/event-types.md#penstock-event-type-check)). A hub
warns of what it is given, with `Warning: 299` headers, or refuses it ([`serve --guidelines
refuse`](reference/cli/serve.md)).

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

- The **id of the business process** is a required field with one of the usual names, such as `bp_id`,
  `business_process_id` or `process_id`. The annotation `penstock/process-id-field` names another: a path, as in
  `order.number`.
- The **entity of a data change** is a required field such as `id`, or of the event type's name, as `order_id` is
  for `sales.orders`; or the partition key. The annotation `penstock/entity-key-fields` names others, with commas
  between them.
- **Moments** are known by their `format`, else by their name (`…_at`, `…_date`, `timestamp`).
- **Personal data** is known by the words of a field's name, as [below](#personal-data-by-its-name).

Of a data change, `ordering_key_fields` are paths into the whole event, as in `data.version`, and
`partition_key_fields` begin inside of `data`, as Nakadi has them; the annotations may be written either way.

## Waivers

A guideline that is broken on purpose is waived by an annotation that gives the reason:

```yaml
annotations:
  penstock.waiver/personal-data: The courier needs the phone number; agreed with data protection on 2026-11-02.
```

The key is `penstock.waiver/` and the id of the guideline. What is waived is listed with its reason, and does not
fail the check. Such a waiver holds for all places of that event type; without a reason it waives nothing. One for a
guideline that is for people to judge is listed too.

Behind the id there may be a period and the path of a field. Such a waiver holds for that field, and for what is in it,
alone: a field that is added later is still found. This is also how to say that a finding is false:

```yaml
annotations:
  penstock.waiver/personal-data.courier.phone: The recipient calls the courier; agreed with data protection.
  penstock.waiver/personal-data.device_id: Counts the sensors of our own machines; no person carries one.
```

The path has the names of the fields from the outside inwards; arrays add nothing to it. The path of a field in a
definition begins with the definition's name. A key has at most 63 characters behind the slash, of `a`-`z`, `A`-`Z`,
`0`-`9`, `-`, `_` and `.`; a field that cannot be named so is waived by the object that it lies in.

## Personal data by its name

A field is found by whole words of its name, in English, German, French, Spanish, Italian, Portuguese, Dutch,
Norwegian, Danish and Swedish, in snake case, camel case or with accents: `date_of_birth`, `dateOfBirth`,
`geburtsdatum`, `fødselsdato`. `ip_address` is found, `ship` and `ip_version` are not. What a field belongs to counts:

- A **name** is personal where it belongs to a person: `customer_name`, `customer.name`, or `name` in an event type such
  as `crm.customers`; `product.name` and `airport_name` are not. `first_name` needs no such sign.
- An **address**, a phone number, an account or a device is personal unless it belongs to an organisation or a thing:
  `airport.address`, `store_phone`, `server_ip`.
- A field that holds `true` or `false`, fixed values (`enum`), or a number of such things is not personal.
- Of an object that is found as a whole, such as `address`, its parts are not listed again.

| kind | what it holds | such as | after |
|---|---|---|---|
{kinds}
The words are in
[`personal_data_terms.py`](../src/penstock/schema/guidelines/personal_data_terms.py). A name says much, but
not all: a field called `note` may hold anything, so this check does not replace the review of
[`personal-data-access`](#personal-data-access).

## In CI

In the pipeline of the service that owns the event types, before anything is registered:

```sh
penstock event-type check event-types/*.yaml --against https://hub.example
```

fails where a definition is wrong, where a MUST is not kept, and where the hub would refuse the change; it shows
what the change means for the schema's version, for producers and for consumers, and which consumer groups read the
event type. After the merge, `penstock event-type apply event-types/*.yaml --url https://hub.example` does what the
check has shown.

`--output sarif` writes the findings in the format that code review tools show beside the lines that they are about.
File names are as they were given, so call it in the root of the repository. On GitHub:

```text
- run: penstock event-type check event-types/*.yaml --output sarif > event-types.sarif
- uses: github/codeql-action/upload-sarif@v3
  if: always()
  with:
    sarif_file: event-types.sarif
```

A MUST is an `error` there, a SHOULD a `warning`; waived findings are suppressed, with the reason.

"""


def render() -> str:
    """Return the page."""
    rows = [f"| [`{rule.id}`](#{rule.id}) | {rule.level} | {_judge(rule)} | {rule.asks} |\n" for rule in _rules()]
    head = "## All of them\n\n| guideline | level | judged by | what it asks |\n|---|---|---|---|\n"
    sections = (
        f"## {_heading(source)}\n\n{''.join(map(_section, rules))}"
        for source, rules in groupby(_rules(), lambda rule: rule.source)
    )
    return (
        f"{HEAD.replace('{kinds}', ''.join(map(_kind, KINDS)))}{head}{''.join(rows)}\n{''.join(sections)}".rstrip("\n")
        + "\n"
    )


def _rules() -> list[Guideline]:
    """Return all guidelines, those with one source beside each other, in the order of the first of each."""
    sources = list(dict.fromkeys(rule.source for rule in GUIDELINES.values()))
    return sorted(GUIDELINES.values(), key=lambda rule: sources.index(rule.source))


def _kind(kind: PersonalDataKind) -> str:
    names = [name for names in (kind.always, kind.unless_of_things, kind.of_people) for name in names.split()[:3]]
    sources = (f"[{title}]({address})" for title, address in map(SOURCES.__getitem__, kind.sources))
    return f"| {kind.id} | {kind.holds} | {', '.join(f'`{name}`' for name in names[:4])} | {', '.join(sources)} |\n"


def _heading(source: str) -> str:
    return source.replace("; ", ", and: ")


def _judge(rule: Guideline) -> str:
    return "check" if rule.is_checked else "people"


def _section(rule: Guideline) -> str:
    judged = "" if rule.is_checked else " For people to judge."
    return f"### `{rule.id}`\n\n**{rule.level}.** {rule.asks} {rule.advice}{judged}\n\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
