"""The process that runs rungs on a GPU, the same for every stage: a rung cannot tell from it whether it is timed."""

from __future__ import annotations

import importlib

WORKER = "ladder.measure.worker"
# By stage the module that does it.
WORKER_OF = {
    "accuracy": "ladder.measure.accuracy.worker",
    "check": "ladder.measure.check.worker",
    "hardware": "ladder.measure.hardware.worker",
    "survey": "ladder.measure.survey.worker",
    "sustained": "ladder.measure.sustained.worker",
    "time": "ladder.measure.time.worker",
    "tune": "ladder.measure.tune.worker",
}


def main() -> None:
    """Do what the request's stage does, on the GPU that it names."""
    import cupy

    from ladder.system import process
    from ladder.system.cublas import provide_cublas

    with process.request() as asked:
        importlib.import_module("cuda.bench")  # which the time stage needs
        cupy.cuda.Device(asked["device"]).use()
        provide_cublas()
        importlib.import_module(WORKER_OF[asked["stage"]]).main(asked)


if __name__ == "__main__":
    main()
