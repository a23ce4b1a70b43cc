"""The command `penstock`."""

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=True, help="An event hub that lives in your own database.")

DatabaseOption = Annotated[
    str, typer.Option(envvar="PENSTOCK_DATABASE", help="sqlite:///FILE or postgresql://USER@HOST/DATABASE")
]


@app.callback()
def penstock() -> None:
    """An event hub that lives in your own database."""


@app.command()
def serve(
    database: DatabaseOption = "sqlite:///penstock.db",
    host: Annotated[str, typer.Option(envvar="PENSTOCK_HOST", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="PENSTOCK_PORT", help="The port to listen on.")] = 8080,
) -> None:
    """Serve the hub over HTTP until told to stop."""
    from penstock.cli.serve import serve_hub

    serve_hub(database, host, port)


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
