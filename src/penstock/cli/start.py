"""Where the command begins: what it needs is loaded without looking for garbage, of which there is none yet."""

import gc


def main() -> None:
    """Run the command that the process's arguments name."""
    gc.disable()
    from penstock.cli import streams

    streams.prepare()
    from penstock.cli.main import main as run

    gc.freeze()  # What is loaded stays to the end: nobody has to look through it again.
    gc.enable()
    run()
