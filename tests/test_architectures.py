"""Every rung compiles for the architecture of every GPU file, fits an SM there, and spills nothing unexplained."""

import re

import pytest
from conftest import line_of
from ladder.build.compile import NOT_APPLICABLE, build
from ladder.build.toolchain import require_architecture, supported_architectures
from ladder.config.documents import read_yaml
from ladder.records import store
from ladder.system.paths import ROOT
from record_architectures import (
    ARCHITECTURES,
    FLAGS,
    GPUS,
    RECORD,
    RUNGS,
    compiled,
    recorded,
)

WARP, REGISTER_UNIT = 32, 256  # a warp's registers are given in units of 256: NVIDIA's occupancy calculator

PAGE = (ROOT / "docs/architectures.md").read_text()
# The spills that the page explains: (rung, architecture).
EXPLAINED = {
    (name, architecture)
    for name, architectures in re.findall(r"^- `(\S+)` on ([^:]+):", PAGE, re.MULTILINE)
    for architecture in architectures.split(", ")
}
PAIRS = [(name, each) for name in RUNGS for each in ARCHITECTURES]
# A rung for each architecture, so that every run compiles for all of them.
TRIED = [(sorted(RUNGS)[3 * index % len(RUNGS)], each) for index, each in enumerate(ARCHITECTURES)]


def test_every_rung_is_recorded_and_the_page_explains_spills_that_there_are():
    assert list(store.read_json(RECORD)["builds"]) == list(RUNGS), "make architectures"
    assert set(PAIRS) >= EXPLAINED


@pytest.mark.parametrize(("name", "architecture"), PAIRS)
def test_a_rung_compiles_fits_and_spills_only_what_is_explained(name, architecture, nvcc, tmp_path):
    rung, one = RUNGS[name], GPUS[architecture]
    if not rung.runs_on(one.compute_capability):
        record = build(rung, one, nvcc, FLAGS, tmp_path)
        assert record["status"] == NOT_APPLICABLE
        assert record["message"].startswith(f"needs compute capability {rung.compute_capability}; ")
        return
    if architecture.rstrip("a") not in supported_architectures(nvcc):
        told = line_of(require_architecture, nvcc, one)
        assert f"does not compile for {architecture}; use CUDA 12: make env" in told
        return
    if nvcc.version != (of := store.read_json(RECORD)["nvcc"]):
        pytest.skip(f"recorded with nvcc {of}, here is {nvcc.version}")
    made = recorded(rung, one, nvcc) or compiled(rung, one, nvcc)  # a source that has changed since is compiled here
    assert made["kernels"] or rung.role == "baseline"
    registers_per_sm = read_yaml(ROOT / one.file)["registers_per_sm"]
    for symbol, kernel in made["kernels"].items():
        warps = -(-kernel["threads"] // WARP)
        per_warp = -(-kernel["registers"] * WARP // REGISTER_UNIT) * REGISTER_UNIT
        assert warps * per_warp <= registers_per_sm, f"{symbol}: {kernel['registers']} registers, {warps} warps a block"
    spilled = {symbol: kernel["spill_bytes"] for symbol, kernel in made["kernels"].items() if kernel["spill_bytes"]}
    assert bool(spilled) == ((name, architecture) in EXPLAINED), f"docs/architectures.md: {name}: {spilled}"


@pytest.mark.parametrize(("name", "architecture"), TRIED)
def test_the_record_holds_what_nvcc_makes_of_a_rung_here(name, architecture, nvcc):
    rung, one = RUNGS[name], GPUS[architecture]
    kept = recorded(rung, one, nvcc)
    if kept is not None:
        assert compiled(rung, one, nvcc) == kept
