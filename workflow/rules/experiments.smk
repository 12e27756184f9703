# experiments: the trials behind docs/performance.md as a table. tools/trial.py makes their records.
from glob import glob

EXPERIMENTS = sorted(glob(f"{RAW}/experiments/*.zip"))


rule experiments:
    """The trials behind docs/performance.md as a table."""
    input:
        records=EXPERIMENTS,
        code=code("experiments"),
    output:
        f"{DERIVED}/tables/experiments.csv",
    log:
        f"{LOGS}/{GPU}/experiments.log",
    conda:
        CONDA
    params:
        baseline=PLAN.baseline.name,
    script:
        "../scripts/experiments.py"
