"""Relative links of the pages lead to existing files, and to headings in them; so do pages that the code cites."""

import re
import subprocess
from pathlib import Path

from tests.docs.examples import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").glob("*.md")])
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_CITED = re.compile(r"\bdocs/[\w/-]+\.md\b")
_FILE = re.compile(r"`([\w.]+/[\w./]*\.(?:py|sql|yml))`")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_links_lead_to_existing_files_and_headings() -> None:
    broken = [f"{name_of(page)}: {link}" for page in PAGES for link in links(page) if not leads_somewhere(page, link)]

    assert not broken


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        ahead += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if link[0] != "#"]

    assert not sorted(map(name_of, set(PAGES) - reached))


def test_every_page_is_part_of_the_repository() -> None:
    ignored = subprocess.run(["git", "check-ignore", *map(str, PAGES)], cwd=ROOT, check=False, capture_output=True)

    assert not ignored.stdout


def test_pages_that_code_cites_exist() -> None:
    files = [path for folder in ("src", "tests", "scripts", "bench") for path in (ROOT / folder).rglob("*")]
    cited = {
        (path.relative_to(ROOT).as_posix(), page)
        for path in files
        if path.suffix in {".py", ".sql"}
        for page in _CITED.findall(path.read_text(encoding="utf-8"))
    }

    assert cited
    assert not sorted(each for each in cited if not (ROOT / each[1]).is_file())


def test_files_that_pages_for_developers_name_exist() -> None:
    """A path begins at the root, at `src/penstock`, or at a layer's folder."""
    bases = [ROOT, ROOT / "src/penstock", *(ROOT / "src/penstock").iterdir()]
    missing = {
        (page, name)
        for page in ("CONTRIBUTING.md", "docs/architecture.md")
        for name in _FILE.findall((ROOT / page).read_text(encoding="utf-8"))
        if not any((base / name).is_file() for base in bases)
    }

    assert not missing


def links(page: Path) -> list[str]:
    """Return the relative links of *page*; what looks like one within code is none."""
    text = _LINK.sub(lambda match: f"[]({match[1] or match[2]})", page.read_text(encoding="utf-8"))
    found = [match[1] for match in _LINK.finditer(_CODE.sub("", text))]
    return [link for link in found if not re.match(r"\w+:", link)]


def leads_somewhere(page: Path, link: str) -> bool:
    """Return whether the file and the heading exist."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
