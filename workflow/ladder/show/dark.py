"""Colours on a dark page."""

from __future__ import annotations

import re
from colorsys import hls_to_rgb, rgb_to_hls

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb, to_rgba, to_rgba_array
from matplotlib.figure import Figure

PAGE, _TEXT = "#0d1117", "#e6edf3"  # as workflow/report/report.css has them


def legible(color: str) -> str:
    """A colour of the same hue that stands out from a white and from a nearly black page alike.

    Its relative luminance (WCAG 2) is brought to between 0.15 and 0.30 by mixing it with white or with black.
    """
    red, green, blue = to_rgb(color)
    for toward in (0.0, 1.0):
        for share in range(100):
            mixed = tuple((1 - share / 100) * channel + toward * share / 100 for channel in (red, green, blue))
            linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in mixed]
            luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
            if 0.15 <= luminance <= 0.30:
                return to_hex(mixed)
    raise AssertionError(color)


def on_dark(color: str) -> str:
    """What a colour becomes on a dark page: paper the page, greys and pale tints as light as they were dark."""
    if to_hex(color) == "#ffffff":
        return PAGE
    hue, lightness, saturation = rgb_to_hls(*to_rgb(color))
    if saturation < 0.2 or lightness > 0.8 or lightness < 0.2:
        return to_hex(hls_to_rgb(hue, 0.08 + 0.86 * (1 - lightness), min(saturation, 0.4)))
    return legible(color)


def darken(picture: Figure) -> Figure:
    """The picture itself, with the colours that it has on a dark page."""
    for artist in picture.findobj(lambda artist: not isinstance(artist, (Axes, Figure))):  # these have patches
        kinds = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")
        kinds = [kind for kind in kinds if hasattr(artist, f"get_{kind}") and hasattr(artist, f"set_{kind}")]
        found = {kind: to_rgba_array(getattr(artist, f"get_{kind}")()) for kind in kinds}  # before any is set
        for kind, colors in found.items():
            dark = [to_rgba(on_dark(tuple(color[:3])), color[3]) for color in colors]
            if dark:
                getattr(artist, f"set_{kind}")(dark if len(dark) > 1 else dark[0])
    return picture


def for_both(svg: str) -> str:
    """A picture with a style sheet that recolours it where its reader prefers dark pages; on paper it stays light."""
    rules = f"svg{{fill:{_TEXT}}}"
    for color in sorted(set(re.findall(r"#[0-9a-f]{6}\b", svg))):
        for name in ("fill", "stroke"):
            if f"{name}: {color}" in svg or f'{name}="{color}"' in svg:
                rules += f'[style*="{name}: {color}"],[{name}="{color}"]{{{name}:{on_dark(color)}!important}}'
    opening = re.search(r"<svg[^>]*>", svg)
    sheet = f"<style>@media screen and (prefers-color-scheme: dark){{{rules}}}</style>"
    return f"{svg[: opening.end()]}{sheet}{svg[opening.end() :]}"
