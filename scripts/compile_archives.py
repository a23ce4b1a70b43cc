"""Compiles what PySpark's workers load: Spark has them import PySpark from archives of sources, compiled at each start.

Called by `scripts/setup-python`. That halves what a worker needs until it begins; a Python of another version compiles
the sources as before.
"""

import importlib.util
import py_compile
import shutil
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile


def main() -> None:
    """Compile the archives of the PySpark that is installed."""
    found = importlib.util.find_spec("pyspark")
    assert found
    assert found.origin
    for archive in sorted((Path(found.origin).parent / "python" / "lib").glob("*.zip")):
        compiled(archive)


def compiled(archive: Path) -> None:
    """Put each compiled module beside its source: all of them, or none where that is broken off."""
    growing = archive.with_suffix(".growing")
    shutil.copy(archive, growing)
    with ZipFile(growing, "a", ZIP_DEFLATED) as zipped, tempfile.TemporaryDirectory() as folder:
        names = set(zipped.namelist())
        sources = sorted(name for name in names if name.endswith(".py") and "/tests/" not in name)
        zipped.extractall(folder, sources)
        for name in sources:
            wanted = f"{name}c"
            if wanted not in names:
                mode = py_compile.PycInvalidationMode.UNCHECKED_HASH  # What is in an archive does not change.
                path = py_compile.compile(f"{folder}/{name}", f"{folder}/{wanted}", name, True, invalidation_mode=mode)
                assert path
                zipped.write(path, wanted)
    growing.replace(archive)


if __name__ == "__main__":
    main()
