"""Many cheap cases in one test: pytest takes longer for a test than they do."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def each_of(cases: Mapping[str, Sequence[Any]]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Have a test run each of the *cases*, by name. It fails with the errors of all that fail; notes name these."""

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            failed = []
            for name, values in cases.items():
                try:
                    check(*values)
                except Exception as error:  # noqa: BLE001 - The others are checked, too.
                    error.add_note(f"The case is {name}.")
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(cases)} cases", failed)

        run.__doc__ = check.__doc__
        return run

    return decorate
