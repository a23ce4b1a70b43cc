"""The documentation site is built without a warning; a broken link and an undocumented public name stop its build."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock.client
import penstock.processing.sources
from docs.site.api_reference import MODULES, aliases, describe_class, is_telling, public_names
from tests.docs.examples import ROOT

_BUILD = """
import sys
import penstock.outbox
from sphinx.cmd.build import main

{before}
sys.exit(main(sys.argv[1:]))
"""
_INDEX = "# Documentation\n\n## Reference\n\n- [Page](page.md)\n"
_FOREIGN = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*["'](?:https?:)?//|@import|url\(["']?(?:https?:)?//""")
"""What has a browser load from another host."""


@pytest.fixture(scope="module")
def mermaid() -> None:
    """Load Mermaid, which pages of the site name."""
    subprocess.run([ROOT / "scripts" / "setup-assets", "mermaid"], check=True)


def build(source: Path, into: Path, *, builder: str = "dummy", before: str = "") -> subprocess.CompletedProcess[str]:
    """Build the pages in *source*, after the statement *before*. The builder `dummy` only looks for errors."""
    options = ["-b", builder, "-c", ROOT / "docs" / "site", "-d", into / "doctrees", "-q", "-W", "--keep-going"]
    command = [sys.executable, "-c", _BUILD.format(before=before), *options, source, into / "site"]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=600)


def write_pages(folder: Path, **texts: str) -> Path:
    """Write pages into `docs` of *folder*, and an index that links to `page.md`."""
    (folder / "docs").mkdir()
    for name, text in {"README": _INDEX, **texts}.items():
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.exhaustive
@pytest.mark.usefixtures("mermaid")
def test_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)

    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
@pytest.mark.usefixtures("mermaid")
def test_broken_link_and_page_outside_the_navigation_stop_the_build(tmp_path: Path) -> None:
    links = "[1](gone.md) [2](#gone-2) [3](README.md#gone-3) [4](../src/gone.py) ![5](gone.png)"

    done = build(write_pages(tmp_path, page=f"# Page\n\n{links}\n", lonely="# Lonely\n"), tmp_path)

    assert done.returncode
    for broken in ("gone.md", "gone-2", "gone-3", "src/gone.py", "gone.png"):
        assert re.search(rf"/page.md:3: WARNING: .*{broken}", done.stderr), broken
    assert "/lonely.md: WARNING: document isn't included in any toctree" in done.stderr


@pytest.mark.exhaustive
@pytest.mark.usefixtures("mermaid")
def test_undocumented_public_name_and_unknown_error_stop_the_build(tmp_path: Path) -> None:
    before = "penstock.outbox.create.__doc__ = None"
    before += "; penstock.outbox.sql.__doc__ = 'Return it.\\n\\nRaises:\\n    NoSuchThing: never.'"

    done = build(write_pages(tmp_path, page="# Page\n\n<!-- api: penstock.outbox -->\n"), tmp_path, before=before)

    assert done.returncode
    assert "penstock.outbox.create is public and has no docstring" in done.stderr
    assert "reference target not found: NoSuchThing" in done.stderr


def test_reference_describes_every_module_with_public_names() -> None:
    shown = [
        line.removeprefix("<!-- api: ").removesuffix(" -->")
        for page in (ROOT / "docs" / "reference" / "python").glob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("<!-- api: ")
    ]
    declaring = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "src" / "penstock").rglob("*.py")
        if "\n__all__ = [" in path.read_text(encoding="utf-8")
    }

    assert sorted(shown) == sorted(MODULES)
    assert {*declaring, "penstock.errors"} == set(MODULES)
    assert all(public_names(module) for module in MODULES)


def test_reference_links_names_of_penstock_only() -> None:
    assert not [name for name in aliases() if not name.startswith("penstock.")]


def test_reference_names_base_classes_that_tell_something() -> None:
    batch = penstock.client.UncommittedBatch
    silent = [penstock.client.Client, penstock.client.Partition, penstock.processing.sources.FileSource]

    assert "   :show-inheritance:" in describe_class("penstock.client", "UncommittedBatch", batch)
    assert all(map(is_telling, batch.__bases__))
    assert not any("   :show-inheritance:" in describe_class("", "", each) for each in silent)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("mermaid")
def test_site_draws_diagrams_shows_files_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("print()\n", encoding="utf-8")
    text = "# Page\n\n```mermaid\nflowchart LR\n    a --> b\n```\n\n[code](../code.py)\n\n<!-- openapi -->\n"

    done = build(write_pages(tmp_path, page=text), tmp_path, builder="html")

    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    page = (site / "docs" / "page.html").read_text(encoding="utf-8")
    assert "../_static/mermaid.tiny.js" in page
    assert (site / "_static" / "mermaid.tiny.js").is_file()
    assert 'href="../files/code.py.html"' in page
    assert "print" in (site / "files" / "code.py.html").read_text(encoding="utf-8")
    assert '<a class="headerlink" href="#get-openapi-json"' in page
    loading = [
        path.relative_to(site).as_posix()
        for path in site.rglob("*")
        if path.suffix in {".html", ".css"} and _FOREIGN.search(path.read_text(encoding="utf-8"))
    ]
    assert not loading
