"""The navigation: the pages that index pages link to, in their order. Sphinx warns of a page that none links to.

An index page is a `README.md` in `docs`. Each heading of that of `docs` itself is a section of the navigation, with the
links and their texts. An index further down has the pages of its own folder, under their own titles.
"""

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class Navigation(SphinxTransform):
    """Adds hidden tables of contents to index pages."""

    default_priority = 100

    def apply(self, **_: Any) -> None:
        """Add one to each section of the index of `docs`, and one to the end of another index."""
        docname = self.env.docname
        if docname == self.config.root_doc:
            for section in self.document.findall(nodes.section):
                if isinstance(section.parent, nodes.section):
                    self._add(section, self._links(section), section.next_node(nodes.title).astext())
        elif docname.startswith("docs/") and docname.endswith("/README"):
            folder = docname.removesuffix("README")
            links = self._links(self.document)
            self._add(
                self.document[-1], {name: "" for name in links if name.startswith(folder) and name != docname}, ""
            )

    def _links(self, place: nodes.Element) -> dict[str, str]:
        """Return the pages that *place* links to, each with the text of the first link."""
        found: dict[str, str] = {}
        for link in place.findall(addnodes.pending_xref):
            if link.get("refdomain") == "doc" and link["reftarget"] in self.env.found_docs:
                found.setdefault(link["reftarget"], link.astext()[:1].upper() + link.astext()[1:])
        return found

    def _add(self, place: nodes.Element, titles: dict[str, str], caption: str) -> None:
        toctree = addnodes.toctree(
            parent=self.env.docname,
            entries=[(title or None, name) for name, title in titles.items()],
            rawentries=[title for title in titles.values() if title],
            includefiles=list(titles),
            maxdepth=-1,
            caption=caption or None,
            rawcaption=caption,
            glob=False,
            hidden=True,
            includehidden=False,
            numbered=0,
            titlesonly=True,
        )
        place += nodes.compound("", toctree, classes=["toctree-wrapper"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform with Sphinx."""
    app.add_transform(Navigation)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
