"""Definitions of event types whose events are instances of a class of the user's."""

import sys
from contextlib import redirect_stdout
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from penstock.client.registry import make_definition
from penstock.core.registry.definition import complete_definition
from penstock.schema.guidelines.draft import find
from penstock.schema.guidelines.names import words
from penstock.schema.models import entity_type, model_schema
from penstock.schema.traversal import Schema, key_path


def import_class(named: str) -> Any:
    """Return the class that is *named* as module:Class. Its module's output goes to stderr.

    Raises:
        BadParameter: the module or the class does not exist, or the module cannot be imported; says why.
    """
    module, _, path = named.partition(":")
    if not module or not path:
        raise _wrong(named, "write it as module:Class, as in shop.events:OrderPlaced")
    if module.endswith(".py") or "/" in module:
        dotted = ".".join(Path(module.removesuffix(".py")).parts)
        raise _wrong(named, f"a module is named as Python imports it, {dotted}:{path}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        with redirect_stdout(sys.stderr):
            found: Any = import_module(module)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if f"{module}.".startswith(f"{missing}."):
            raise _wrong(named, f"there is no module {missing}, neither here nor where Python looks") from error
        raise _wrong(named, f"the module {module} imports {missing}, which is not there") from error
    except (Exception, SystemExit) as error:
        raise _wrong(named, f"the module {module} cannot be imported: {type(error).__name__}: {error}") from error
    for step in path.split("."):
        if not hasattr(found, step):
            close = get_close_matches(step, dir(found), 1)
            raise _wrong(named, f"{module} has no {path}{f'; did you mean {close[0]}?' if close else ''}")
        found = getattr(found, step)
    return found


def define_event_type(named: str, model: Any, traits: dict[str, Any]) -> tuple[dict[str, Any], Schema]:
    """Return the definition of the event type whose events are instances of *model*, as a hub takes it, and its schema.

    Args:
        named: The class as module:Class, for errors.
        model: The class.
        traits: Members of the definition. Its name and category are those of the class by default.

    Raises:
        BadParameter: no schema can be made of the class, or it lacks a key field.
        InvalidEventType: a hub would refuse the definition.
    """
    record = entity_type(model)
    traits = {"category": "undefined" if record is None else "data", **traits}
    if record is not None and traits["category"] != "data":
        raise _wrong(named, f"it is a change of data, so its category is data, not {traits['category']}")
    try:
        schema = model_schema(model, business=traits["category"] == "business")
    except TypeError as error:
        raise _wrong(named, str(error)) from error
    for field in traits.get("partition_key_fields", ()):
        if find(schema, key_path(field)) is None:
            members = ", ".join(schema.get("properties", {})) or "none"
            reason = f"{named} has no member {field!r}; it has {members}"
            raise typer.BadParameter(reason, param_hint="--partition-key-field")
    name = traits.pop("name", None) or ".".join(words(str(getattr(record or model, "__name__", schema["title"]))))
    made = make_definition(name, {"schema": schema, **traits})  # type: ignore[typeddict-item]
    complete_definition(made)
    return {"name": name, **made}, schema


def _wrong(named: str, reason: str) -> typer.BadParameter:
    return typer.BadParameter(f"{named}: {reason}", param_hint="MODULE:CLASS")
