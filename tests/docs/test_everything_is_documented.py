"""The pages list all that the code offers: routes, parameters, metrics, errors, commands."""

import ast
import re
from collections.abc import Iterator
from typing import Any

import penstock.errors
import penstock.hub.subscriptions.sessions
from penstock.cli.contents import CONTENTS, load_command
from penstock.server.routes import ROUTES
from scripts import document_errors
from tests.docs.examples import ROOT
from tests.server.all_metrics import collect_every_metric

DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def pages_of(folder: str) -> dict[str, str]:
    """Return the pages of a folder, by name of file."""
    return {path.name: path.read_text(encoding="utf-8") for path in (DOCS / folder).glob("*.md")}


def test_http_index_lists_the_routes() -> None:
    table = page("reference/http/README.md")
    listed = {
        (method, path)
        for cell in re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
        for method, paths in re.findall(r"`(GET|POST|PUT|PATCH|DELETE) ([^`]*(?:`, `/[^`]*)*)`", cell)
        for path in paths.split("`, `")
    }

    assert listed == {(operation.method, operation.path) for operation in ROUTES}


def test_http_pages_explain_every_parameter() -> None:
    text = "".join(pages_of("reference/http").values())
    explained = set(re.findall(r"`([\w-]+)(?:=\d+)?`", text))
    parameters = {parameter.name for operation in ROUTES for parameter in operation.parameters}

    assert not parameters - explained


def test_page_of_subscriptions_names_every_reason_for_the_end_of_a_stream() -> None:
    text = page("reference/http/subscriptions.md")

    assert not [reason for reason in reasons() if f"`{reason}" not in text]


def reasons() -> list[str]:
    """Return the texts of the last lines of streams, each up to its variable part."""
    delivery = ast.parse((ROOT / "src/penstock/core/subscriptions/delivery.py").read_text(encoding="utf-8"))
    [over] = [node for node in ast.walk(delivery) if isinstance(node, ast.FunctionDef) and node.name == "_find_end"]
    returned = [node.value for node in ast.walk(over) if isinstance(node, ast.Return)]
    found = [each.values[0] if isinstance(each, ast.JoinedStr) else each for each in returned]
    texts = [each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    texts += [
        value
        for name, value in vars(penstock.hub.subscriptions.sessions).items()
        if name.isupper() and isinstance(value, str)
    ]
    assert len(texts) > 10, "they are looked for in the wrong place"
    return texts


def test_page_about_watching_a_hub_lists_the_metrics() -> None:
    rows = re.findall(r"^\| (`penstock_\w+`(?:, `penstock_\w+`)*) \|", page("guides/watching-a-hub.md"), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"penstock_\w+", row)}

    assert listed == collect_every_metric().keys()


def test_errors_pages_are_up_to_date_and_advise_on_existing_errors() -> None:
    stale = "docs/reference/errors is out of date: .venv/bin/python scripts/document_errors.py"

    assert pages_of("reference/errors") == document_errors.render(), stale

    codes = {code for kind in penstock.errors.ALL for code in (kind.code, *kind.cases)}
    assert not set(document_errors.ADVICE) - codes
    assert not document_errors.LOCAL - codes


def test_command_line_pages_have_every_command_and_option() -> None:
    text = "".join(pages_of("reference/cli").values())
    missing = [
        word
        for name in CONTENTS
        for path, leaf in commands(f"penstock {name}", load_command(name))
        for word in [path, *(name for option in leaf.params for name in option.opts if name.startswith("--"))]
        if word not in text and word not in ("--help", "--install-completion", "--show-completion")
    ]

    assert not missing, f"docs/reference/cli does not say {missing}"


def commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Return each command that can be run, with the words that are typed for it."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
    else:
        for name, child in children.items():
            yield from commands(f"{path} {name}", child)
