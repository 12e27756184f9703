"""What a GPU of yours measured, as one file to send in, and taken from one: `python workflow/bundle.py make`."""

import sys

try:
    from ladder.commands.bundle import main
except ModuleNotFoundError as error:
    sys.exit(f"bundle: {sys.executable} has no {error.name}; run `make env`, then .venv/bin/python workflow/bundle.py")
except KeyboardInterrupt:
    sys.exit(130)

sys.exit(main(sys.argv[1:]))
