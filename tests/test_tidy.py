"""The house style, as a test. Every message names the file and what to do."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "penstock"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
STATEMENTS = sorted(PACKAGE.rglob("*.sql"))

FUNCTION_LINES_MAX = 60
VAGUE_FILES = {"base", "common", "helper", "helpers", "impl", "manager", "misc", "types", "util", "utils"}
VAGUE_SUFFIXES = ("Base", "Common", "Helper", "Impl", "Manager", "Misc", "Util", "Utils")
BANNED_WORDS = {"topic", "bookmark"}  # See docs/glossary.md. `message` and `token` are also words of others' wires.


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def words(name: str) -> set[str]:
    spaced = "".join(f"_{c}" if c.isupper() else c for c in name)
    return set(spaced.lower().split("_"))


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node


def line_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines the body has; the options of a command make a long signature, and no long function."""
    assert node.end_lineno
    return node.end_lineno - node.body[0].lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_file_is_tidy(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    wrong = []

    if path.stem in VAGUE_FILES:
        wrong.append("has a name that says nothing: name it after what it holds")
    if text.strip() and not ast.get_docstring(tree):
        wrong.append("does not say in its first line what it is")
    for node in definitions(tree):
        if not isinstance(node, ast.ClassDef) and line_count(node) > FUNCTION_LINES_MAX:
            wrong.append(f"{node.name}: longer than {FUNCTION_LINES_MAX} lines")
        if node.name.endswith(VAGUE_SUFFIXES):
            wrong.append(f"{node.name}: ends in a word that says nothing")
        if found := words(node.name) & BANNED_WORDS:
            wrong.append(f"{node.name}: the glossary has another word for {found}")

    assert not wrong, "\n  ".join([relative(path), *wrong])


@pytest.mark.parametrize("path", STATEMENTS, ids=relative)
def test_sql_says_first_what_it_promises(path: Path) -> None:
    assert path.read_text().startswith("-- "), f"{relative(path)} does not begin with a comment that says what it does"


def test_import_rules_are_as_strict_as_the_tree_allows() -> None:
    rules = (ROOT / "pyproject.toml").read_text()
    awaited = set(re.findall(r'"penstock\.(\w+)\.\*\*"', rules)) | set(re.findall(r'"?\((\w+)\)(?= \||")', rules))
    there = sorted(name for name in awaited if (PACKAGE / name / "__init__.py").exists())
    assert not there, f"{there} exist: take away their parentheses and `.**` in [tool.importlinter]"
