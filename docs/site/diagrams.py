"""Diagrams: blocks of Mermaid, which a browser draws with a copy of Mermaid that the site brings along.

`scripts/setup-assets mermaid` loads that copy.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class Diagrams(SphinxTransform):
    """Leaves blocks of Mermaid as they are, for the browser, instead of highlighting them."""

    default_priority = 100

    def apply(self, **_: Any) -> None:
        """Replace the blocks of a page."""
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") == "mermaid":
                shown = nodes.container(classes=["diagram"])
                shown += nodes.literal_block(block.rawsource, block.astext(), language="none", classes=["mermaid"])
                block.replace_self(shown)


def add_scripts(app: Sphinx, _name: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Have pages with a diagram load what draws it."""
    if 'class="diagram' in context.get("body", ""):
        app.add_js_file("mermaid.tiny.js", loading_method="defer")
        app.add_js_file("diagrams.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform and the scripts with Sphinx."""
    app.add_transform(Diagrams)
    app.connect("html-page-context", add_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
