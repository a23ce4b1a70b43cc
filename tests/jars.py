"""What the tests have of Java's, as `scripts/setup-jars` has loaded it."""

from pathlib import Path
from typing import Final

PLACE: Final = Path(__file__).parent.parent / "build" / "jars"


class JarsMissing(Exception):
    """They are not in build/."""


def jars(part: str) -> list[Path]:
    """Return the jars of a part.

    Raises:
        JarsMissing: they are not there.
    """
    found = sorted((PLACE / part).glob("*.jar"))
    if not found:
        raise JarsMissing(
            f"{part} is not in build/jars: run `make test-all`"
            if part == "delta"
            else f"{part} is not in build/jars: run `make system`"
        )
    return found
