"""The process that all stages share on a GPU."""

import contextlib
import sys
from types import SimpleNamespace

import pytest
from ladder.measure import worker


@pytest.mark.parametrize("stage", worker.WORKER_OF)
def test_each_stage_runs_on_the_gpu_that_is_asked_for(monkeypatch, stage):
    seen = []
    asked = {"stage": stage, "device": 3}
    device = lambda number: SimpleNamespace(use=lambda: seen.append(("use", number)))  # noqa: E731
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(Device=device)))
    monkeypatch.setitem(sys.modules, "cuda.bench", SimpleNamespace())
    does = SimpleNamespace(main=lambda request: seen.append(("main", request)))
    monkeypatch.setitem(sys.modules, worker.WORKER_OF[stage], does)
    monkeypatch.setattr("ladder.system.process.request", lambda: contextlib.nullcontext(asked))
    monkeypatch.setattr("ladder.system.cublas.provide_cublas", lambda: seen.append("cublas"))
    worker.main()
    assert seen == [("use", 3), "cublas", ("main", asked)]
