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


def depends_on_the_locale(call: ast.Call) -> bool:
    """Return whether *call* reads or writes text in the encoding of the locale, which is not UTF-8 everywhere."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    named = {keyword.arg for keyword in call.keywords}
    modes = {value.value for value in call.args if isinstance(value, ast.Constant)} & {"r", "w", "a", "x", "r+", "w+"}
    reads_or_writes = (
        function in {"read_text", "write_text", "FileHandler", "TextIOWrapper"}
        or (function in {"open", "fdopen"} and bool(modes))
        or bool(named & {"text", "universal_newlines"})
    )
    return reads_or_writes and "encoding" not in named


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_file_is_tidy(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    wrong = []

    if path.stem in VAGUE_FILES:
        wrong.append("has a name that says nothing: name it after what it holds")
    if text.strip() and not ast.get_docstring(tree):
        wrong.append("does not say in its first line what it is")
    wrong += [
        f"line {node.lineno}: name the encoding, which is another one in other locales"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and depends_on_the_locale(node)
    ]
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


def test_public_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places.setdefault(name, []).append(relative(path))

    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_import_rules_are_as_strict_as_the_tree_allows() -> None:
    rules = (ROOT / "pyproject.toml").read_text()
    awaited = set(re.findall(r'"penstock\.(\w+)\.\*\*"', rules)) | set(re.findall(r'"?\((\w+)\)(?= \||")', rules))
    there = sorted(name for name in awaited if (PACKAGE / name / "__init__.py").exists())
    assert not there, f"{there} exist: take away their parentheses and `.**` in [tool.importlinter]"
