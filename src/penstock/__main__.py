"""`python -m penstock`: the command line."""

from penstock.cli.start import main

if __name__ == "__main__":
    main()
