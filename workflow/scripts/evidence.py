"""Copy what git keeps of the derived files to its place, and say what changed."""

from pathlib import Path

from ladder.records.store import write_bytes
from ladder.system.terminal import job, say

with job(snakemake):
    changed = []
    for derived in map(Path, snakemake.input.derived):
        kept = Path(*(part for part in derived.parts if part != "all"))
        if not kept.exists() or kept.read_bytes() != derived.read_bytes():
            write_bytes(kept, derived.read_bytes())
            changed.append(str(kept))
    say("\n".join(["", f"{len(changed)} of {len(snakemake.input.derived)} files changed", *changed]))
