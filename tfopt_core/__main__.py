"""`python -m tfopt_core` is the program `tfopt`."""

from tfopt_core.cli.main import main

if __name__ == "__main__":
    main()
