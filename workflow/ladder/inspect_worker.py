"""The process that asks one rung's host code for its launches, observed and not made: it may crash or never end."""

from __future__ import annotations

from pathlib import Path

from ladder import worker
from ladder.config import Shape
from ladder.errors import LadderError
from ladder.library import Library


def main() -> None:
    """Report the launches at each shape of the request, one event a shape."""
    asked = worker.request()
    try:
        library = Library(Path(asked["library"]))
        for shape in asked["shapes"]:
            launches = [
                {"symbol": launch.kernel, **{key: value for key, value in vars(launch).items() if key != "kernel"}}
                for launch in library.launches(Shape.parse(shape), asked["sms"])
            ]
            worker.emit(shape=shape, launches=launches)
    except LadderError as error:
        worker.fail(str(error))


if __name__ == "__main__":
    main()
