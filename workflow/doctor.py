"""`python workflow/doctor.py`, or `make doctor`: what this machine lacks for the stages, and what to do about it."""

import argparse
import sys

from ladder.commands.doctor import examine, print_checks
from ladder.config.documents import read_yaml, validated
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT

argparse.ArgumentParser(description="What this machine lacks for the stages, and what to do about it.").parse_args()
try:
    settings = validated(read_yaml(ROOT / "config" / "config.yaml"), "config", "config/config.yaml", {})
    sys.exit(print_checks(list(examine(settings, ROOT)), print))
except LadderError as error:
    sys.exit(f"gemm-ladder: {error}")
