"""The reference of Python, from docstrings. A page says `<!-- api: penstock.client -->` where those of a module stand.

Public are the names in `__all__`, and every error.
A name without a docstring, and an error in `Raises:` that does not exist, are warnings.
"""

import ast
import builtins
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import penstock.errors
from penstock.errors import PenstockError

MODULES: Final = (
    "penstock.client",
    "penstock.errors",
    "penstock.outbox",
    "penstock.processing",
    "penstock.processing.event_handler",
    "penstock.processing.handlers",
    "penstock.processing.together",
    "penstock.processing.outcomes",
    "penstock.processing.engine",
    "penstock.processing.sources",
    "penstock.processing.checkpoints",
    "penstock.processing.projections",
    "penstock.processing.targets",
    "penstock.processing.batcher",
    "penstock.processing.effects",
    "penstock.processing.reactions",
    "penstock.processing.duplicates",
    "penstock.processing.changes",
    "penstock.processing.latest",
    "penstock.processing.history",
    "penstock.processing.stats",
    "penstock.processing.snapshot",
    "penstock.processing.metrics",
    "penstock.processing.view",
    "penstock.processing.database",
    "penstock.spark",
    "penstock.spark.pipelines",
    "penstock.spark.processors.processor",
    "penstock.spark.processors.sources.source",
    "penstock.spark.processors.sources.table",
    "penstock.spark.processors.sources.kafka",
    "penstock.spark.processors.sources.messagedb",
    "penstock.spark.projections.project",
    "penstock.spark.projections.database",
    "penstock.spark.projections.files",
    "penstock.testing.live_hub",
    "penstock.testing.factories",
    "penstock.testing.clock",
    "penstock.testing.postgres",
    "penstock.testing.pgbouncer",
    "penstock.testing.plugin",
    "penstock.testing.processing",
    "penstock",
    "penstock.server",
    "penstock.storage",
)
"""Those with a public interface. A name that several have is described with the first of them."""
_MARKER: Final = re.compile(r"^<!-- api: ([\w.]+) -->$", re.MULTILINE)
_SAID_BY_CODE: Final = ("cases", "code", "hint", "message", "retryable")
"""Attributes of errors that the pages of errors list, by code."""
_LOG = logging.getLogger(__name__)


def public_names(module: str) -> list[str]:
    """Return the public names of *module*."""
    loaded = import_module(module)
    if loaded is penstock.errors:
        return sorted(name for name, value in vars(loaded).items() if is_error(value))
    return list(loaded.__all__)


def is_error(value: Any) -> bool:
    """Return whether *value* is a class of errors of Penstock."""
    return inspect.isclass(value) and issubclass(value, PenstockError)


@cache
def homes() -> dict[int, str]:
    """Return the module that describes each public object, by the object's identity."""
    return {
        id(getattr(import_module(module), name)): f"{module}.{name}"
        for module in reversed(MODULES)
        for name in public_names(module)
    }


@cache
def aliases() -> dict[str, str]:
    """Return the name under which each public object is described, by its other names."""
    found = {}
    for module in MODULES:
        for name in public_names(module):
            value = getattr(import_module(module), name)
            described = homes()[id(value)]
            found[f"{module}.{name}"] = described
            if inspect.isclass(value) or inspect.isroutine(value):
                found[f"{value.__module__}.{value.__qualname__}"] = described
    return found


def expand(_app: Sphinx, _docname: str, source: list[str]) -> None:
    """Put the names of a module where a page asks for them."""
    source[0] = _MARKER.sub(lambda match: "\n".join(["```{eval-rst}", *describe(match[1]), "```"]), source[0])


def describe(module: str) -> Iterator[str]:
    """Yield the lines of reStructuredText that describe the public names of *module*."""
    assert module in MODULES, f"add {module} to MODULES of docs/site/api_reference.py"
    yield from (f".. automodule:: {module}", "")
    elsewhere = []
    for name in public_names(module):
        value = getattr(import_module(module), name)
        described = homes()[id(value)]
        if described != f"{module}.{name}":
            elsewhere.append(f"* :py:obj:`{name} <{described}>`: described with ``{described.rpartition('.')[0]}``")
        elif inspect.isclass(value):
            yield from describe_class(module, name, value)
        elif inspect.isroutine(value):
            yield from (f".. autofunction:: {module}.{name}", "")
        else:
            yield from describe_value(module, name)
    if elsewhere:
        yield from ("Also in this module:", "", *elsewhere, "")


def describe_class(module: str, name: str, value: type) -> Iterator[str]:
    """Yield the description of a class and its members, with those of its base classes that tell something."""
    yield from (f".. autoclass:: {module}.{name}", "   :members:", "   :undoc-members:")
    if is_error(value):
        yield f"   :exclude-members: {', '.join(_SAID_BY_CODE)}"
    if any(map(is_telling, value.__bases__)):
        yield "   :show-inheritance:"
    yield ""


def describe_value(module: str, name: str) -> Iterator[str]:
    """Yield the description of a constant or an alias of types, whose docstring stands behind its definition."""
    text = docstring_of_value(import_module(module), name)
    yield from (f".. py:data:: {name}", f"   :module: {module}", "")
    yield from (f"   {line}" for line in text.splitlines())
    yield ""
    if not text:
        _LOG.warning("%s.%s is public and has no docstring", module, name)


def docstring_of_value(module: Any, name: str) -> str:
    """Return the docstring behind the definition of *name*, wherever *module* has it from; empty if there is none."""
    place = Path(module.__file__)
    tree = ast.parse(place.read_text(encoding="utf-8"))
    for node, behind in zip(tree.body, tree.body[1:], strict=False):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", getattr(node, "name", None))]
        )
        if name in [each.id for each in targets if isinstance(each, ast.Name)]:
            text = behind.value if isinstance(behind, ast.Expr) else None
            return (
                inspect.cleandoc(text.value) if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
            )
    for found in ast.walk(tree):
        if isinstance(found, ast.ImportFrom) and name in [each.name for each in found.names] and found.module:
            return docstring_of_value(import_module(found.module), name)
    return ""


def check(_app: Sphinx, what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Warn of a public name without a docstring."""
    if what in {"class", "exception", "function", "method", "property", "module"} and not any(lines):
        _LOG.warning("%s is public and has no docstring", name)


def show_pictures(_app: Sphinx, what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Show what a module's docstring indents as it stands: lists of modules, trees, diagrams."""
    if what == "module":
        for n, line in reversed(list(enumerate(lines))):
            if line.startswith("    ") and not (n and lines[n - 1].startswith("    ")) and not lines[n - 1]:
                lines[n:n] = [".. code-block:: text", ""]


def leave_out_internal_bases(_app: Sphinx, _name: str, _value: Any, _options: Any, bases: list[Any]) -> None:
    """Name the base classes that tell a reader something."""
    bases[:] = filter(is_telling, bases)


def is_telling(base: Any) -> bool:
    """Return whether *base* is a public class, an exception, or says that a class is a protocol."""
    is_exception = inspect.isclass(base) and issubclass(base, BaseException) and base.__module__ == "builtins"
    return id(getattr(base, "__origin__", base)) in homes() or is_exception or base is Protocol


_ATTRIBUTES: Final = ("attribute", "data", "property")


def keep(_app: Sphinx, what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Put aside the docstring of an attribute: napoleon would read a word before a colon as a type."""
    if what in _ATTRIBUTES:
        _kept[:] = lines


def restore(_app: Sphinx, what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Put back what `keep` has put aside."""
    if what in _ATTRIBUTES:
        lines[:] = _kept


_kept: list[str] = []


@cache
def by_last_name() -> dict[str, str]:
    """Return the full name of each public object, by its last part, unless several objects share that."""
    names = sorted(set(homes().values()))
    last = [name.rpartition(".")[2] for name in names]
    return {each: name for each, name in zip(last, names, strict=True) if last.count(each) == 1}


def look_up_exact_names(_app: Sphinx, doctree: nodes.document) -> None:
    """Have Sphinx look up the names of types as they stand: a search among all names is slow, and may mislead."""
    for node in doctree.findall(pending_xref):
        node.attributes.pop("refspecific", None)


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> nodes.Element | None:
    """Resolve what refers to a public object by another of its names; leave other names of Python without a link."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    described = aliases().get(target) or (by_last_name().get(target) if node["reftype"] != "obj" else None)
    if described:
        domain = env.get_domain("py")
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", described, node, content)
    if node["reftype"] == "exc" and not hasattr(builtins, target) and "." not in target:
        return None
    return content


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps with Sphinx."""
    app.connect("source-read", expand)
    app.connect("autodoc-process-docstring", check)
    app.connect("autodoc-process-docstring", show_pictures)
    app.connect("autodoc-process-docstring", keep, priority=499)
    app.connect("autodoc-process-docstring", restore, priority=501)
    app.connect("autodoc-process-bases", leave_out_internal_bases)
    app.connect("doctree-read", look_up_exact_names)
    app.connect("missing-reference", resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
