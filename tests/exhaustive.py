"""How much of a test runs in `make test`, and how much in `make test-all` only.

A whole test that is for `make test-all` only bears `@pytest.mark.exhaustive`.
"""

from typing import Any, Final

import pytest
from hypothesis import settings

PROFILE: Final = "exhaustive"
"""The Hypothesis profile of `make test-all`: many examples, other ones in each run."""


def exhaustive(*values: Any, id: str | None = None) -> Any:
    """Return a case for `parametrize` that runs in `make test-all` only."""
    return pytest.param(*values, marks=pytest.mark.exhaustive, id=id)


def seeds(few: int, many: int) -> list[Any]:
    """Return the seeds from 0 to *many*, as cases for `parametrize`; `make test` runs the first *few*."""
    return [*range(few), *(exhaustive(seed) for seed in range(few, many))]


def is_exhaustive() -> bool:
    """Return whether this run looks at many examples."""
    return settings.get_current_profile_name() == PROFILE


def examples(few: int, many: int) -> int:
    """Return how many examples a property is checked with: *few*, or *many* in `make test-all`."""
    return many if is_exhaustive() else few
