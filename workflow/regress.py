"""This checkout's rungs against those of another, timed in turn: `python workflow/regress.py origin/main`."""

import sys

try:
    from ladder.commands.regress import main
except ModuleNotFoundError as error:
    sys.exit(
        f"regress: {sys.executable} has no {error.name}; run `make env`, then .venv/bin/python workflow/regress.py"
    )
except KeyboardInterrupt:
    sys.exit(130)

sys.exit(main(sys.argv[1:]))
