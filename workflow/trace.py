"""Records to and from a portable trace: `python workflow/trace.py export > trace.json`."""

import sys

try:
    from ladder.commands.trace import main
except ModuleNotFoundError as error:
    sys.exit(f"trace: {sys.executable} has no {error.name}; run `make env`, then .venv/bin/python workflow/trace.py")
except KeyboardInterrupt:
    sys.exit(130)

sys.exit(main(sys.argv[1:]))
