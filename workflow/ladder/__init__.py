"""gemm-ladder: everything of the pipeline that can be tested without Snakemake."""
