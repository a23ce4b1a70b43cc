"""Links to files of the repository: each leads to a page of the site that shows the file.

So nothing leads out of the site, and what is shown is of the site's own version. A link to a folder becomes code.
"""

from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.transforms import SphinxTransform

FOLDER: Final = "files"
"""Where the site has the pages."""
_TEMPLATE: Final = Path(__file__).parent / "templates" / "source_file.html"
_METADATA: Final = "shown_files"
_LANGUAGES: Final = {".py": "python", ".sql": "sql", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml"}
_DOWNLOADED: Final = {".ipynb", ".png"}


class LinksToFiles(SphinxTransform):
    """Has links to files lead to their pages, and shows the names of folders."""

    default_priority = 100

    def apply(self, **_: Any) -> None:
        """Replace the links of a page, and note the files."""
        shown = set[str]()
        for link in list(self.document.findall(addnodes.download_reference)):
            name, path = self.env.relfn2path(link["reftarget"], self.env.docname)
            if Path(path).is_file() and Path(path).suffix not in _DOWNLOADED:
                shown.add(name)
                uri = "../" * self.env.docname.count("/") + f"{FOLDER}/{name}.html"
                link.replace_self(nodes.reference("", "", *link.children, internal=True, refuri=uri))
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("reftype") == "myst" and not link.get("refdomain"):
                path = self.env.relfn2path(link["reftarget"], self.env.docname)[1]
                if Path(path).is_dir():
                    link.replace_self(nodes.literal("", link.astext()))
        self.env.metadata[self.env.docname][_METADATA] = sorted(shown)


def show_files(app: Sphinx, failed: Exception | None) -> None:
    """Write the page of each file that a page links to, unless it is newer than the file."""
    builder = app.builder
    if failed or not isinstance(builder, StandaloneHTMLBuilder):
        return
    for name in sorted({name for metadata in app.env.metadata.values() for name in metadata.get(_METADATA, ())}):
        file, page = Path(app.srcdir) / name, Path(app.outdir) / FOLDER / f"{name}.html"
        if page.exists() and page.stat().st_mtime > max(each.stat().st_mtime for each in (file, _TEMPLATE)):
            continue
        page.parent.mkdir(parents=True, exist_ok=True)
        language = _LANGUAGES.get(file.suffix, "text")
        body = builder.highlighter.highlight_block(
            file.read_text(encoding="utf-8"), language, linenos="inline", force=True
        )
        up = "../" * (1 + name.count("/"))
        context = {"name": name, "body": body, "up": up, "root": f"{up}{app.config.root_doc}.html"}
        page.write_text(builder.templates.render(_TEMPLATE.name, context), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform and the pages with Sphinx."""
    app.add_transform(LinksToFiles)
    app.connect("build-finished", show_files)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
