"""gemm-ladder: everything of the pipeline that can be tested without Snakemake."""

import sys

if hasattr(getattr(sys.modules["__main__"], "snakemake", None), "rule"):  # the script of a rule, which imports us first
    from ladder.system.terminal import catch_imports

    catch_imports(sys.modules["__main__"].snakemake)
