"""Runs the benchmarks: `python -m bench [NAME…] [--quick]`, or lists them."""

import argparse
import resource
import signal
import sys
import traceback
from typing import NoReturn

import bench.figures  # noqa: F401  (it fills FIGURES)
from bench.figure import FIGURES, Figure, Scale
from bench.place import place
from bench.results import keep, told, write_pages

OPEN_FILES = 8192


def main() -> int:
    """Run what was asked for; 1 when something could not be measured, whatever the figures are."""
    asked = _arguments()
    if asked.list:
        for figure in FIGURES.values():
            print(f"{figure.name:18} {figure.says}{' (only when named)' if figure.asked_for else ''}")
        return 0
    allow_open_files()
    signal.signal(signal.SIGTERM, leave)  # So that what was started is ended then too, and what was written is deleted.
    figures = [FIGURES[name] for name in asked.names] or [each for each in FIGURES.values() if not each.asked_for]
    failed = [figure.name for figure in figures if not _run(figure, Scale(asked.quick), save=not asked.quick)]
    if failed:
        print(f"could not be measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, and write docs/benchmarks.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *FIGURES], help="figures; by default all")
    parser.add_argument("--list", action="store_true", help="list the figures")
    parser.add_argument(
        "--quick", action="store_true", help="see that they run: smaller, shorter, and nothing is written"
    )
    return parser.parse_args()


def _run(figure: Figure, scale: Scale, *, save: bool) -> bool:
    print(f"{figure.name}: {figure.says}", flush=True)
    rows = []
    try:
        with place() as lent:
            try:
                for row in figure.measure(lent, scale):
                    rows.append(row)
                    print(told(row), flush=True)
            except Exception:
                traceback.print_exc()
                print(lent.hubs_said(), file=sys.stderr)
                raise
    except Exception:  # noqa: BLE001  (the other figures are wanted all the same)
        return False
    if save:
        keep(figure.name, rows)
        write_pages()
    return True


def leave(_: int, __: object) -> NoReturn:
    sys.exit(143)


def allow_open_files() -> None:
    """Raise the limit for us and the hubs that we start: 2000 readers are 2000 sockets at each end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < OPEN_FILES:
        wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    sys.exit(main())
