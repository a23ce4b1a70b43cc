"""The nouns of the guidelines: a guideline, and a finding where a definition does not keep it."""

import re
from typing import Final, Literal, NamedTuple

GuidelineLevel = Literal["MUST", "SHOULD", "MAY"]
Within = Literal["definition", "schema"]

LINE_CHARS_MAX: Final = 400
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_SPACES: Final = re.compile(r"\s+")


class Guideline(NamedTuple):
    """One rule for event types that are made for others to read."""

    id: str
    """Short and stable: waivers and reports name it."""
    level: GuidelineLevel
    asks: str
    """What it asks for."""
    advice: str
    """What to do to keep it."""
    source: str
    """The heading of the event guidelines under which it stands."""
    is_checked: bool = True
    """Whether a definition can show that it is broken; otherwise it is for people to judge."""


class Finding(NamedTuple):
    """A place at which a definition does not keep a guideline."""

    rule: Guideline
    within: Within
    pointer: str
    """A JSON pointer into the definition, or into its schema, beginning with `#`."""
    found: str
    """What is there, in half a sentence."""
    waived: str | None = None
    """The reason for which the guideline is broken on purpose; None: it is not."""

    @property
    def advice(self) -> str:
        """What to do about it."""
        return self.rule.advice

    def __str__(self) -> str:
        return f"{self.rule.level} {self.rule.id}: {self.within} {self.pointer}: {self.found}"

    def line(self) -> str:
        """Return it on one line that can stand in a header, also between quotes: printable ASCII, at most 400 long.

        >>> from penstock.core.guidelines.rules import OWNERSHIP
        >>> Finding(OWNERSHIP, "definition", "#/owning_application", 'it is "\u00a7"').line()
        "MUST ownership: definition #/owning_application: it is '?'"
        """
        text = _SPACES.sub(" ", str(self)).replace('"', "'").replace("\\", "/")
        text = _UNPRINTABLE.sub("?", text)
        return text if len(text) <= LINE_CHARS_MAX else f"{text[: LINE_CHARS_MAX - 3]}..."
