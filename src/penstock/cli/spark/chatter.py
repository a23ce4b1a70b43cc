"""What Spark and its processes say while a command runs: in a file, and the warnings of ours among it on stderr."""

import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from penstock.cli.output import tell

LOOK_INTERVAL: Final = 0.5


@contextmanager
def kept_if_it_fails(log: Path | None) -> Iterator[Path]:
    """Lend *log*; where there is none, a new file, which is deleted unless the block fails."""
    if log is not None:
        yield log
        return
    number, name = tempfile.mkstemp(prefix="penstock-spark-", suffix=".log")
    os.close(number)
    file = Path(name)
    try:
        yield file
    except Exception:
        raise
    except BaseException:  # Somebody has ended it: nothing is wrong.
        file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)


@contextmanager
def warnings_told() -> Iterator[None]:
    """Tell the warnings of ours from this process, and from those that it starts in the block, as they come."""
    from penstock.spark.warnings_file import VARIABLE, warnings_into

    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder) / "warnings"
        path.touch()
        handler, logger = warnings_into(str(path)), logging.getLogger("penstock.spark")
        logger.addHandler(handler)
        os.environ[VARIABLE] = str(path)
        try:
            with path.open(encoding="utf-8") as file, _telling(file):
                yield
        finally:
            del os.environ[VARIABLE]
            logger.removeHandler(handler)
            handler.close()


@contextmanager
def _telling(file: IO[str]) -> Iterator[None]:
    """Tell each line of *file* while the block runs, and what is left at its end."""
    over = threading.Event()

    def tell_on() -> None:
        is_last = False
        while not is_last:
            is_last = over.wait(LOOK_INTERVAL)
            for line in file:
                tell(f"warning: {line.rstrip()}", style="yellow")

    telling = threading.Thread(target=tell_on, daemon=True)
    telling.start()
    try:
        yield
    finally:
        over.set()
        telling.join()
