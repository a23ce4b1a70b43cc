"""Pydantic models: their JSON, how to read it, and their JSON Schema.

Pydantic is optional. It is imported here only when a caller's type is a pydantic type.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

from penstock.errors import RequirementMissing

_EXTRA_SINCE: Final = (2, 12)
"""First pydantic version whose validation methods have the parameter `extra`."""
_ENDLESS: Final = ("Circular reference", "Maximum serialization depth")
"""Prefixes of the plain ValueErrors that report nesting."""


def is_pydantic(kind: Any) -> bool:
    """Return whether *kind* is a pydantic model or a pydantic dataclass.

    >>> is_pydantic(dict)
    False
    """
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def mentions_pydantic(kind: Any) -> bool:
    """Return whether *kind* is a pydantic type, or composed of some: a union, a list, an annotated type."""
    return is_pydantic(kind) or any(mentions_pydantic(part) for part in get_args(kind))


def dump_model(model: Any) -> Any:
    """Return *model* as plain values in its JSON form: by alias, with its own serializers.

    Raises:
        TypeError: it contains a value that has no form in JSON.
        RecursionError: it contains itself, or is nested too deeply.
    """
    from pydantic_core import PydanticSerializationError

    try:
        if hasattr(model, "model_dump"):
            return model.model_dump(mode="json", by_alias=True)
        return type(model).__pydantic_serializer__.to_python(model, mode="json", by_alias=True)
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise TypeError(f"{type(model).__qualname__} has no form in JSON: {error}") from error
    except ValueError as error:
        if str(error).startswith(_ENDLESS):
            raise RecursionError(str(error)) from error
        raise  # Raised by a computed field.


def dump_python(model: Any) -> Any:
    """Return *model* as Python values; in the JSON form, a number that is not finite can be null already."""
    return type(model).__pydantic_serializer__.to_python(model)


def make_reader(kind: Any) -> Callable[[bytes], Any]:
    """Return a function that reads JSON into *kind*; it ignores unknown members even if *kind* forbids them.

    Models within *kind* with `extra="allow"` keep them.

    Raises:
        TypeError: pydantic cannot read into *kind*.
        RequirementMissing: *kind* forbids unknown members, and this pydantic is too old to override that.
    """
    import pydantic

    try:
        adapter = pydantic.TypeAdapter(kind)
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(error.message) from error
    extras = set(_list_extras(kind, set()))
    if "forbid" not in extras:
        return adapter.validate_json
    if tuple(map(int, pydantic.VERSION.split(".")[:2])) < _EXTRA_SINCE:
        raise RequirementMissing(
            needed='Pydantic 2.12, to read into models with extra="forbid",',
            found=pydantic.VERSION,
            install="pip install 'pydantic>=2.12' does it",
        )
    extra: Any = "allow" if "allow" in extras else "ignore"
    return lambda raw: adapter.validate_json(raw, extra=extra)


def explain_error(error: Any) -> tuple[list[Any], str]:
    """Return the path and the reason of the first error in a ValidationError."""
    first = error.errors(include_url=False, include_context=False)[0]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return [*first["loc"]], ("is missing" if first["type"] == "missing" else first["msg"]) + more


def make_schema(kind: Any, prefix: str = "") -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of *kind* as `dump_model` writes it.

    References lead to `#/definitions/`, followed by *prefix* and the name of the model.

    Raises:
        TypeError: a member has a type that JSON Schema cannot describe.
    """
    import pydantic

    try:
        return _generate(kind, f"#/definitions/{prefix}{{model}}")
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(f"{_find_culprit(kind, set())}{error.message}") from error


def _generate(kind: Any, reference: str) -> dict[str, Any]:
    import pydantic
    from pydantic.json_schema import GenerateJsonSchema

    class SchemaGenerator(GenerateJsonSchema):
        """Says what the schemas of other kinds of types say too, and no more."""

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic asks about each
            """Leave out titles that repeat the name."""
            return False

        def decimal_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ARG002 - bounds say nothing of a text
            """Avoid the pattern with look-ahead, which RE2 does not know."""
            return {"type": "string", "format": "decimal"}

        def datetime_schema(self, schema: Any) -> dict[str, Any]:
            """Leave out the format of a `NaiveDatetime`: RFC 3339's date-time has a zone."""
            return {"type": "string"} if schema.get("tz_constraint") == "naive" else super().datetime_schema(schema)

        def emit_warning(self, kind: Any, detail: str) -> None:
            """Keep quiet about defaults that have no form in JSON."""

    adapter = pydantic.TypeAdapter(kind)
    return adapter.json_schema(
        by_alias=True, mode="serialization", schema_generator=SchemaGenerator, ref_template=reference
    )


def _find_culprit(kind: Any, known: set[Any]) -> str:
    """Return the member of *kind*, or of a model within it, that has no schema."""
    import pydantic

    for part in get_args(kind):
        if found := _find_culprit(part, known):
            return found
    if not is_pydantic(kind) or kind in known:
        return ""
    known.add(kind)
    for name, field in kind.__pydantic_fields__.items():
        if found := _find_culprit(field.annotation, known):
            return found
        try:
            if not mentions_pydantic(field.annotation):
                _generate(field.annotation, "{model}")
        except pydantic.errors.PydanticUserError:
            return f"{kind.__name__}.{name}: "
    return ""


def _list_extras(kind: Any, known: set[Any]) -> Iterator[Any]:
    """Yield the `extra` setting of each model within *kind*."""
    for part in get_args(kind):
        yield from _list_extras(part, known)
    if is_pydantic(kind) and kind not in known:
        known.add(kind)
        yield (getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", None) or {}).get("extra")
        for field in kind.__pydantic_fields__.values():
            yield from _list_extras(field.annotation, known)
