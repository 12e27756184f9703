"""One rung by itself, compiled, checked and timed: `python workflow/bench.py async_copy 1024 512x2048x4096`."""

import sys

try:
    from ladder.commands.bench import main
except ModuleNotFoundError as error:
    sys.exit(f"bench: {sys.executable} has no {error.name}; run `make env`, then .venv/bin/python workflow/bench.py")
except KeyboardInterrupt:
    sys.exit(130)

sys.exit(main(sys.argv[1:]))
