"""A definition that has been checked: what makes it invalid, and which guidelines it does not keep."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.cli.definition.definition import Definition
from penstock.cli.definition.document import FileLine, Unreadable
from penstock.cli.event_type.against import Against
from penstock.core.access import LISTS, find_wrong_members
from penstock.core.registry.definition import UnknownMember, unknown_members
from penstock.core.registry.event_type import EventType, WithoutEffect, find_members_without_effect
from penstock.errors import InvalidEventType, UnsupportedFormat
from penstock.schema.guidelines import GuidelineFinding, check


class Fault(NamedTuple):
    """What no hub would take."""

    place: FileLine
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedDefinition:
    """What there is to say of a definition."""

    definition: Definition
    faults: tuple[Fault, ...]
    own_findings: tuple[GuidelineFinding, ...]
    against: Against | None = None
    """What it would do to the event type of its name; None where nobody has asked, or it is invalid."""

    @property
    def findings(self) -> tuple[GuidelineFinding, ...]:
        """Where it does not keep a guideline; waived ones too."""
        return self.own_findings + (self.against.findings if self.against else ())

    @property
    def strangers(self) -> list[tuple[FileLine, UnknownMember]]:
        """Its members that mean nothing to a hub, which takes them all the same, and where each stands."""
        document, at = self.definition.document, self.definition.at
        return [(document.place((*at, *each.at)), each) for each in unknown_members(self.definition.value)]

    @property
    def without_effect(self) -> list[tuple[FileLine, WithoutEffect]]:
        """Members of the definition that have no effect, with their lines.

        Those of `authorization` that stand for no caller are among them. A hub that authenticates callers refuses
        these, unless the event type has them already.
        """
        if self.faults:
            return []
        value = self.definition.value
        lists = {name: value["authorization"].get(name) for name in LISTS} if value.get("authorization") else {}
        nobody = [WithoutEffect(f"authorization.{field}", reason) for field, reason in find_wrong_members(lists)]
        return [(self.definition.field_at(each.field), each) for each in (*find_members_without_effect(value), *nobody)]

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why the hub would refuse it, as far as it was asked."""
        return self.against.refused if self.against else ()


@dataclass(frozen=True, slots=True)
class Check:
    """All that was checked in one go."""

    definitions: tuple[CheckedDefinition, ...]
    unreadable: tuple[Unreadable, ...]

    @property
    def is_good(self) -> bool:
        """Whether all can be read, is valid, would not be refused, and breaks no MUST without a waiver."""
        return not self.error_count and not self.count("MUST")

    @property
    def error_count(self) -> int:
        """How much there is that no hub would take, or that the hub would not."""
        return len(self.unreadable) + sum(len(each.faults) + len(each.refusals) for each in self.definitions)

    @property
    def waived_count(self) -> int:
        """How many findings are waived."""
        return sum(finding.waived is not None for each in self.definitions for finding in each.findings)

    def count(self, level: str) -> int:
        """Return how many findings of that level are not waived."""
        found = (finding for each in self.definitions for finding in each.findings)
        return sum(finding.waived is None and finding.rule.level == level for finding in found)


def checked(definitions: Iterable[Definition]) -> list[CheckedDefinition]:
    """Check each definition by itself, and that no two have the same name."""
    first: dict[str, Definition] = {}
    found = []
    for definition in definitions:
        faults = [*_faults(definition)]
        name = definition.value.get("name")
        if isinstance(name, str) and (before := first.setdefault(name, definition)) is not definition:
            faults.append(Fault(definition.field_at("name"), f"{name!r} {_how_often(definition, before)}"))
        found.append(CheckedDefinition(definition, tuple(faults), tuple(check(definition.value))))
    return found


def _how_often(definition: Definition, before: Definition) -> str:
    if (definition.document, definition.at) == (before.document, before.at):
        return "is given twice: name its file once"
    return f"is defined twice, first at {before.place}"


def _faults(definition: Definition) -> Iterator[Fault]:
    try:
        EventType.parse(definition.value)
    except InvalidEventType as error:
        for each in error.fields.get("violations") or [error.fields]:
            yield Fault(definition.field_at(each["field"]), f"{each['field']} {each['reason']}".strip())
    except UnsupportedFormat as error:
        yield Fault(definition.field_at("schema"), error.detail)
