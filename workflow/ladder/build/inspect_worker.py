"""The process that asks one rung's host code for its launches, observed and not made: it may crash or never end."""

from __future__ import annotations

from pathlib import Path

from ladder.build.library import Library
from ladder.model.shape import Shape
from ladder.system import process


def main() -> None:
    """Report the launches at each shape of the request, one event a shape."""
    with process.request() as asked:
        library = Library(Path(asked["library"]))
        for shape in asked["shapes"]:
            launches = [
                {"symbol": launch.kernel, **{key: value for key, value in vars(launch).items() if key != "kernel"}}
                for launch in library.launches(Shape.parse(shape), asked["sms"])
            ]
            process.emit(shape=shape, launches=launches)


if __name__ == "__main__":
    main()
