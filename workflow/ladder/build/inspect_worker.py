"""The process that asks one rung's host code for its launches, observed and not made: it may crash or never end."""

from __future__ import annotations

import math
from pathlib import Path

from ladder.build.library import Launch, Library
from ladder.model.cases import Case
from ladder.model.shape import Shape
from ladder.system import process

MOST_SMS = 256  # times those of the GPU


def main() -> None:
    """Report the launches at each shape of the request, one event a shape, then the kernels of each product."""
    with process.request() as asked:
        library = Library(Path(asked["library"]))
        for shape in asked["shapes"]:
            product, sms = Shape.parse(shape), asked["sms"]
            tiles = _tiles(library, product, sms)
            launches = [
                {
                    "symbol": launch.kernel,
                    **{key: value for key, value in vars(launch).items() if key != "kernel"},
                    "tiles": tiles.get(launch.kernel),
                }
                for launch in library.launches(product, sms)
            ]
            process.emit(shape=shape, launches=launches, workspace_bytes=library.workspace_asked(product, sms))
        for case in map(Case.of, asked["products"]):
            launches = library.launches(case.shape, asked["sms"], case.paddings)
            process.emit(product=case.as_record(), kernels=[launch.kernel for launch in launches])


def _tiles(library: Library, shape: Shape, sms: int) -> dict[str, int]:
    """By symbol: the blocks of a kernel on a GPU with so many SMs that more of them add no block.

    Blocks of a persistent kernel compute one tile after the other; with SMs enough each has one tile. Left out is a
    kernel whose blocks grow with the SMs without end, or that another kernel replaces before its blocks stop growing.
    """
    own = before = _blocks(library.launches(shape, sms))
    fewer = _blocks(library.launches(shape, max(1, int(sms / 1.25))))
    found = {name: blocks for name, blocks in own.items() if fewer.get(name) == blocks}
    more = sms
    while before and own.keys() - found.keys() and more < MOST_SMS * sms:
        more = math.ceil(1.25 * more)
        after = _blocks(library.launches(shape, more))
        found |= {name: before[name] for name in own.keys() - found.keys() if after.get(name, 0) == before.get(name)}
        before = after
    return found


def _blocks(launches: list[Launch]) -> dict[str, int]:
    return {launch.kernel: math.prod(launch.grid) for launch in launches}


if __name__ == "__main__":
    main()
