"""The page of what others published: every number beside ours, with the verdict and the reason."""

from __future__ import annotations

import pandas as pd

from ladder.show.pages import markdown_table
from ladder.tables.published import findings, size_words, verdict_words

BASELINE = (
    "Publications compare with cublasSgemm, so shares of cuBLAS are of `cublas` here too. Other pages take the faster"
    " of `cublas` and `cublas_best`, so their shares are lower where that is `cublas_best`. A step is the ratio of two"
    " rungs timed in one process, else of their speeds over `cublas`. A kernel with published tiles is set beside the"
    " kernel before with its published tiles, where both are known."
)


def published_page(table: pd.DataFrame) -> str:
    """The table of that name as Markdown: what it says, then for each publication and kernel one table.

    A reason stands once, under the table, with the number that its rows give.
    """
    parts = ["# What others published, and what is measured here", "", *(f"- {line}" for line in findings(table)), ""]
    parts += [BASELINE, ""] if len(table) else []
    for (publication, gpu), rows in table.groupby(["publication", "gpu"], sort=False):
        parts += [f"## {publication}, {gpu}", "", f"Source: {rows['source'].iloc[0]}.", ""]
        for (kernel, rung), own in rows.groupby(["kernel", "rung"], sort=False):
            reasons = list(dict.fromkeys(text for text in own["reason"] if text))
            lines = zip(own.itertuples(), verdict_words(own), strict=True)
            cells = [
                (
                    *(
                        row.quantity.replace("_", " "),
                        row.compared_with,
                        size_words(row.sizes),
                        row.published,
                        row.here,
                    ),
                    *(verdict, str(reasons.index(row.reason) + 1) if row.reason else ""),
                )
                for row, verdict in lines
            ]
            parts += [f"### {kernel}: `{rung}`" if rung else f"### {kernel}", ""]
            parts += markdown_table(cells, ["what", "over", "n", "there", "here", "verdict", "why"])
            parts += [f"{place}. {reason}" for place, reason in enumerate(reasons, 1)] + [""] * bool(reasons)
    return "\n".join(parts).rstrip() + "\n"
