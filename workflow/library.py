"""A rung for use elsewhere: `python workflow/library.py fastest`."""

import sys

try:
    from ladder.commands.library import main
except ModuleNotFoundError as error:
    sys.exit(f"library: {sys.executable} has no {error.name}; run `make library`")
except KeyboardInterrupt:
    sys.exit(130)

sys.exit(main(sys.argv[1:]))
