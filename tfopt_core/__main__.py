"""`python -m tfopt_core` is the program `tfopt`."""

import os
import sys

# Python puts the working directory first: a file `rich.py` there would be imported as the library.
if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]

from tfopt_core.commands.main import main

if __name__ == "__main__":
    main()
