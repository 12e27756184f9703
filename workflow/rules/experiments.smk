# experiments: the trials behind docs/performance.md as a table. Their records are made by hand, see CONTRIBUTING.md.
from glob import glob

EXPERIMENTS = sorted(glob(f"{RAW}/experiments/*.zip"))


rule experiments:
    """The trials behind docs/performance.md as a table."""
    input:
        records=EXPERIMENTS,
        code=code("experiments"),
    output:
        "results/{gpu}/tables/experiments.csv",
    log:
        "logs/{gpu}/experiments.log",
    conda:
        CONDA
    params:
        baseline=PLAN.baseline.name,
    script:
        "../scripts/experiments.py"
