"""How much the cards of one name differ: what each takes over what all of them take."""

from __future__ import annotations

import pandas as pd

from ladder.show.figures.specification import PALETTE, Axis, Choice, Layer, Specification

SHARED_LEAST = 5  # rungs and sizes that a card shares with others, below which its median says nothing


def figure(table: pd.DataFrame) -> Specification:
    """A panel a GPU, a line a card: the median over rungs and sizes with the middle 90 %, of `cards_table`."""
    parts = table.assign(percent=100 * (table["over_cards"].astype(float) - 1)).groupby(["gpu", "card"])["percent"]
    ends = {name: (lambda of, share=share: of.quantile(share)) for name, share in (("low", 0.05), ("high", 0.95))}
    found = parts.agg(median="median", count="count", **ends).reset_index()
    found = found[found["count"] >= SHARED_LEAST]
    gpus = [gpu for gpu, rows in found.groupby("gpu") if len(rows) > 1]
    data = found.loc[found["gpu"].isin(gpus), ["gpu", "card", "low", "median", "high", "count"]]
    data = data.assign(label=[f"{row.card} ({row.count:.0f})" for row in data.itertuples(index=False)])
    names = {gpu: list(rows.sort_values("median")["label"]) for gpu, rows in data.groupby("gpu")}
    most = max(data[["low", "high"]].abs().to_numpy().max(), 1) * 1.1 if len(data) else 1
    return Specification(
        title=_title(data),
        note="Median over rungs and sizes with the middle 90 %; behind a card's name how many it shares with others.",
        layers=[Layer("point", data, "median", "label", color=PALETTE[0], low="low", high="high")],
        x=Axis("time over the mean of the cards, %", limits=(-most, most)),
        y={gpu: Axis(scale="names", names=names[gpu]) for gpu in gpus} or Axis(),
        panels=Choice("gpu", "GPU", gpus, gpus[0]) if gpus else None,
        columns=2,
        height=2.2,
    )


def _title(data: pd.DataFrame) -> str:
    if data.empty:
        return f"No two cards of one name share {SHARED_LEAST} rungs and sizes of the same build"
    spans = data.groupby("gpu")["median"].agg(lambda of: of.max() - of.min())
    parts = [f"{span:.2f} % ({gpu}, {(data['gpu'] == gpu).sum()} cards)" for gpu, span in spans.items()]
    return f"Medians of cards of one name are apart by {', '.join(parts)}"
