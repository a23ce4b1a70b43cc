"""The documentation site, which Sphinx builds from the pages: see docs/decisions/documentation-site.md."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import penstock  # noqa: E402

project = "Penstock"
author = "The Penstock maintainers"
copyright = author  # noqa: A001
version = release = penstock.__version__

# The source is the repository itself, so that a link leads to the same page here and in a viewer of the repository.
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**.md", "deploy/*.md"]
exclude_patterns = [
    ".*",
    "bench",
    "build",
    "docs/site",
    "examples",
    "scripts",
    "src",
    "tests",
]  # Sphinx need not look there.
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docs.site.api_reference",
    "docs.site.diagrams",
    "docs.site.navigation",
    "docs.site.openapi_page",
    "docs.site.source_files",
]
nitpicky = True
smartquotes_action = "D"  # Dashes only: quotes are often those of a language.

myst_heading_anchors = 6
suppress_warnings = ["misc.highlighting_failure"]  # An example may leave out the rest of a program.

default_role = "py:obj"  # What docstrings have in single backticks is code, and a link if it is a public name.
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
napoleon_numpy_docstring = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "Penstock"
html_static_path = ["static", str(ROOT / "build" / "mermaid" / "mermaid.tiny.js")]
html_extra_path = ["extra"]
html_favicon = "static/favicon.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
templates_path = ["templates"]
