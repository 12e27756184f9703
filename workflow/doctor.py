"""`python workflow/doctor.py`, or `make doctor`: what this machine lacks for the stages, and what to do about it."""

import argparse
import sys

try:
    from ladder.commands.doctor import examine, print_checks
    from ladder.config.documents import read_yaml, validated
    from ladder.system.paths import ROOT
    from ladder.system.terminal import told
except KeyboardInterrupt:
    sys.exit(130)

argparse.ArgumentParser(description="What this machine lacks for the stages, and what to do about it.").parse_args()
with told():
    settings = validated(read_yaml(ROOT / "config" / "config.yaml"), "config", "config/config.yaml", {})
    status = print_checks(list(examine(settings, ROOT)), print)
sys.exit(status)
