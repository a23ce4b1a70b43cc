"""What the code offers and what the pages list are the same: routes, parameters, metrics, errors, commands, names."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import penstock.errors
import penstock.hub.reasons
from penstock.cli.contents import CONTENTS, loaded
from penstock.server.app import OPERATIONS
from penstock.server.metrics import Backlog, Metrics
from scripts import document_errors
from tests.docs.examples import ROOT

DOCS = ROOT / "docs"
MODULES = sorted((ROOT / "src").rglob("*.py"))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_http_page_lists_the_routes_that_there_are() -> None:
    table = page("http.md").partition("## In general")[0]
    listed = {
        (method, path)
        for cell in re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
        for method, paths in re.findall(r"`(GET|POST|PUT|PATCH|DELETE) ([^`]*(?:`, `/[^`]*)*)`", cell)
        for path in paths.split("`, `")
    }

    assert listed == {(operation.method, operation.path) for operation in OPERATIONS}


def test_the_http_page_explains_every_parameter() -> None:
    explained = set(re.findall(r"`([\w-]+)(?:=\d+)?`", page("http.md")))
    parameters = {parameter.name for operation in OPERATIONS for parameter in operation.parameters}

    assert not parameters - explained


@pytest.mark.parametrize("name", ["http.md", "guides/subscriptions.md"])
def test_every_reason_for_which_a_stream_ends_is_told(name: str) -> None:
    missing = [reason for reason in reasons() if f"`{reason}" not in page(name)]

    assert not missing, f"docs/{name} does not say {missing}"


def reasons() -> list[str]:
    """Return what the last lines of streams say, each up to what differs in it."""
    delivery = ast.parse((ROOT / "src/penstock/core/delivery.py").read_text(encoding="utf-8"))
    [over] = [node for node in ast.walk(delivery) if isinstance(node, ast.FunctionDef) and node.name == "_over"]
    returned = [node.value for node in ast.walk(over) if isinstance(node, ast.Return)]
    found = [each.values[0] if isinstance(each, ast.JoinedStr) else each for each in returned]
    texts = [each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    texts += [value for name, value in vars(penstock.hub.reasons).items() if name.isupper() and isinstance(value, str)]
    assert len(texts) > 10, "they are looked for in the wrong place"
    return texts


def test_the_http_page_lists_the_metrics_that_there_are() -> None:
    metrics = Metrics(lambda: None)
    metrics.published.add("order.placed", 1)
    metrics.served.add("order.placed", 1)
    text = metrics.text(Backlog(0, 0)).decode()
    given = set(re.findall(r"^(penstock_\w+?)(?:{.*})? ", text, re.MULTILINE))
    listed = set(re.findall(r"^\| `(penstock_\w+)` \|", page("http.md"), re.MULTILINE))

    assert listed == given


def test_the_errors_page_is_up_to_date() -> None:
    stale = "docs/errors.md is out of date: .venv/bin/python scripts/document_errors.py"

    assert page("errors.md") == document_errors.render(), stale


def test_the_errors_page_advises_on_no_error_that_is_gone() -> None:
    kinds = penstock.errors.ALL

    assert not set(document_errors.ADVICE) - {kind.code for kind in kinds}


def test_the_drawing_of_the_errors_is_their_tree() -> None:
    drawn = re.findall(r"^ {4}([│ ]*[├└]── |)(\w+)", penstock.errors.__doc__ or "", re.MULTILINE)
    tree = [(len(branch) // 4, name) for branch, name in drawn]
    kinds = penstock.errors.ALL

    assert sorted(tree, key=lambda line: line[1]) == sorted(
        ((kind.__mro__.index(penstock.errors.PenstockError), kind.__name__) for kind in kinds), key=lambda line: line[1]
    )


@pytest.mark.parametrize("command", ["penstock"])
def test_the_command_line_page_has_every_command_and_option(command: str) -> None:
    text = page("cli.md")
    missing = [
        word
        for name in CONTENTS
        for path, leaf in commands(f"{command} {name}", loaded(name))
        for word in [path, *(name for option in leaf.params for name in option.opts if name.startswith("--"))]
        if word not in text and word not in ("--help", "--install-completion", "--show-completion")
    ]

    assert not missing, f"docs/cli.md does not say {missing}"


@pytest.mark.parametrize(
    "package",
    [
        "penstock",
        "penstock.client",
        "penstock.outbox",
        "penstock.processing",
        "penstock.server",
        "penstock.spark",
        "penstock.testing.processing",
    ],
)
def test_the_python_page_has_every_public_name(package: str) -> None:
    named = set(re.findall(r"`(\w+)`", page("python.md"))) | set(re.findall(r"`(\w+)`", page("errors.md")))

    missing = sorted(set(import_module(package).__all__) - named)

    assert not missing, f"docs/python.md does not say {missing} of {package}"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_every_module_begins_with_a_sentence_and_documents_its_public_names(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    heading = (ast.get_docstring(tree) or "").partition("\n")[0]

    undocumented = [name for name, node in public(tree) if not ast.get_docstring(node)]

    assert heading.endswith((".", ":", "?")), "its first line is no sentence"
    assert not undocumented, f"no docstring: {undocumented}"


def commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Return each command that can be run, with the words that are typed for it."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
    else:
        for name, child in children.items():
            yield from commands(f"{path} {name}", child)


def public(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    """Return a module's public classes, functions and methods; the names of tests are sentences by themselves."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith(
            ("_", "test_")
        ):
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                members = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
                yield from (
                    (f"{node.name}.{each.name}", each) for each in members if not each.name.startswith(("_", "test_"))
                )
