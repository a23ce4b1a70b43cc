"""The page of all routes: a page says `<!-- openapi -->` where those of the OpenAPI document of a hub stand.

The document itself lies in the site as `openapi.json`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from sphinx.application import Sphinx

from penstock import __version__
from penstock.server.openapi import describe
from penstock.server.openapi.operation import HttpOperation
from penstock.server.routes import ROUTES

_MARKER: Final = re.compile(r"^<!-- openapi -->$", re.MULTILINE)
_BOUNDS: Final = {
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "minLength": "length ≥ {}",
    "maxLength": "length ≤ {}",
    "minItems": "items ≥ {}",
    "maxItems": "items ≤ {}",
    "pattern": "matches `{}`",
    "default": "default {}",
}

Schema = Mapping[str, Any]


def document() -> dict[str, Any]:
    """Return the OpenAPI document of a hub that authenticates its callers by tokens."""
    return describe(ROUTES, __version__, methods=["token"])


def render(described: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of Markdown about all operations, by subject."""
    for subject, operations in groupby(ROUTES, lambda each: each.subject):
        yield from (f"## {subject}", "")
        for each in operations:
            yield from render_operation(each, described["paths"][each.path][each.method.lower()])


def render_operation(operation: HttpOperation, described: Schema) -> Iterator[str]:
    """Yield the heading of an operation, its parameters, its body and its responses."""
    needs = f"Needs the permission `{operation.needs}`." if operation.needs else "Needs no permission."
    yield from (f"### `{operation.method} {operation.path}`", "", f"{described['summary']}. {needs}", "")
    if described["parameters"]:
        yield from ("| parameter | in | type | |", "|---|---|---|---|")
        for each in described["parameters"]:
            required = " (required)" if each["required"] and each["in"] != "path" else ""
            kind, text = cell(type_of(each["schema"])), cell(each.get("description", ""))
            yield f"| `{each['name']}` | {each['in']}{required} | {kind} | {text} |"
        yield ""
    if "requestBody" in described:
        yield from render_content("Body", "", described["requestBody"]["content"])
    for status, response in described["responses"].items():
        if status != "default":
            yield from render_content(f"Response {status}", response["description"], response["content"])
            if response.get("headers"):
                yield from ("| header | |", "|---|---|")
                yield from (f"| `{name}` | {cell(each['description'])} |" for name, each in response["headers"].items())
                yield ""


def render_content(title: str, text: str, content: Mapping[str, Schema]) -> Iterator[str]:
    """Yield a paragraph about a body, and its shape in each media type, folded away."""
    media_types = ", ".join(f"`{each}`" for each in content)
    yield from (f"**{title}** {media_types}{': ' if content and text else ''}{text}", "")
    for media_type, each in content.items():
        shape = "\n".join(shape_of(each["schema"]))
        if "\n" in shape:
            yield from (f'<details><summary>Shape of <code class="literal">{media_type}</code></summary>', "")
            yield from ("```text", shape, "```", "", "</details>", "")


def shape_of(schema: Schema, indent: str = "", name: str = "", behind: str = "") -> Iterator[str]:
    """Yield the lines of a sketch of *schema*: members by name, each with its type, its bounds and what it means."""
    text = "  ".join(filter(None, [schema.get("description", "")]))
    comment = f"   — {text}" if text else ""
    if "properties" in schema:
        yield f"{indent}{name}{{{behind}{comment}"
        required = schema.get("required", ())
        for each, inner in schema["properties"].items():
            yield from shape_of(inner, indent + "  ", f"{each}{'' if each in required else '?'}: ")
        yield f"{indent}}}"
    elif schema.get("type") == "array" and is_large(schema["items"]):
        yield f"{indent}{name}array of{bounds_of(schema)}{comment}"
        yield from shape_of(schema["items"], indent + "  ")
    elif (alternatives := schema.get("oneOf") or schema.get("anyOf")) and any(map(is_large, alternatives)):
        yield f"{indent}{name}one of{comment}"
        for each in alternatives:
            yield from shape_of(each, indent + "  ", "- " if not is_large(each) else "")
    else:
        yield f"{indent}{name}{type_of(schema)}{comment}"


def is_large(schema: Schema) -> bool:
    """Return whether the sketch of *schema* takes several lines."""
    inner = [*schema.get("oneOf", ()), *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return "properties" in schema or any(map(is_large, inner))


def type_of(schema: Schema) -> str:
    """Return the type of a value, with its bounds, on one line."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"])) + bounds_of(schema)
    if alternatives := schema.get("oneOf") or schema.get("anyOf"):
        return " | ".join(map(type_of, alternatives))
    kinds = schema.get("type", "any")
    kind = kinds if isinstance(kinds, str) else " | ".join(kinds)
    if kind == "array":
        kind = f"array of {type_of(schema['items'])}" if "items" in schema else kind
    elif isinstance(schema.get("additionalProperties"), Mapping):
        kind = f"object of {type_of(schema['additionalProperties'])}"
    return kind + (f" ({schema['format']})" if "format" in schema else "") + bounds_of(schema)


def bounds_of(schema: Schema) -> str:
    """Return what bounds a value, empty if nothing does."""
    return "".join(f", {text.format(schema[name])}" for name, text in _BOUNDS.items() if name in schema)


def cell(text: str) -> str:
    """Return *text* for a cell of a table."""
    return text.replace("|", "\\|")


def expand(_app: Sphinx, _docname: str, source: list[str]) -> None:
    """Put the operations where a page asks for them."""
    source[0] = _MARKER.sub(lambda _: "\n".join(render(document())), source[0])


def write_document(app: Sphinx, failed: Exception | None) -> None:
    """Put the document into the site."""
    if not failed:
        (Path(app.outdir) / "openapi.json").write_text(json.dumps(document(), indent=2), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the page and the file with Sphinx."""
    app.connect("source-read", expand)
    app.connect("build-finished", write_document)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
