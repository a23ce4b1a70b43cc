"""How a pytest of its own is told of our fixtures."""

from importlib.metadata import entry_points
from typing import Final

IS_INSTALLED: Final = "penstock" in entry_points(group="pytest11").names
PLUGIN: Final = () if IS_INSTALLED else ("-p", "penstock.testing.plugin")
"""By name only where this checkout was installed before it had them: no plugin can be loaded twice."""
