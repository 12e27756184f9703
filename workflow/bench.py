"""One rung by itself, compiled, checked and timed: `python workflow/bench.py async_copy 1024 512x2048x4096`."""

import os
import sys

# This package's bytecode is kept also where Python is told to write none: each process would compile it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

try:
    from ladder.commands.bench import main
except ModuleNotFoundError as error:
    sys.exit(f"bench: {sys.executable} has no {error.name}; run `make env`, then .venv/bin/python workflow/bench.py")
except KeyboardInterrupt:
    sys.exit(130)

sys.exit(main(sys.argv[1:]))
