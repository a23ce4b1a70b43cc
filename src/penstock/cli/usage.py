"""Says in plain words what is wrong with an option's value, for which Typer has only those of another library."""

from typing import Any

import typer
from typer.core import TyperGroup


class Commands(TyperGroup):
    """All commands, and whatever is wrong with the values that they are given."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named; a value that it refuses is refused in plain words."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if (plain := _plain(error.__cause__)) is None:
                raise
            raise typer.BadParameter(plain, ctx=error.ctx, param=error.param, param_hint=error.param_hint) from error


def _plain(cause: BaseException | None) -> str | None:
    """Return what *cause* says of a value, in our words; None where it says nothing that we know."""
    findings = getattr(cause, "errors", None)
    if findings is None:
        return None
    found = findings()[0]
    given, more = found["input"], found.get("ctx", {})
    match found["type"]:
        case "int_parsing" | "int_parsing_size":
            return f"{given!r} is not a whole number"
        case "greater_than_equal":
            return f"{given} is less than {more['ge']}"
        case "less_than_equal":
            return f"{given} is more than {more['le']}"
        case "bool_parsing":
            return f"{given!r} is neither true nor false"
        case "value_error":
            return str(more["error"])
    return None
