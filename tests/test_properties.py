"""Any product that Hypothesis draws is right, of every rung that the emulator runs; and it finds what is not.

On a GPU, where every rung runs, tests/test_gpu.py asks the same. More than the few examples of every day are tried with
`make test ARGS='tests/test_properties.py --hypothesis-profile=thorough'`.
"""

import pytest
from emulator import RUNGS
from hypothesis import find, given, settings
from ladder.build.library import Library
from ladder.config.kernels import read_kernels
from ladder.measure.check.worker import check_case
from ladder.measure.devices import EmulatedDevice
from ladder.system.paths import ROOT
from products import products

LADDER = read_kernels(ROOT / "config" / "kernels.yaml")
EMULATED = [name for name, rung in LADDER.items() if ROOT / "kernels" / rung.source in RUNGS]
ON_CPU = EmulatedDevice(threads=2, time_limit_s=30)


@pytest.mark.parametrize("name", EMULATED)
def test_any_product_is_right_in_the_emulator(name, for_the_emulator):
    rung = LADDER[name]
    library = Library(for_the_emulator(ROOT / "kernels" / rung.source, rung.macros))

    @given(products(rung.precision))
    def holds(product):
        record = check_case(ON_CPU, library, *product, runs=2, **rung.declared)
        assert record["verdict"] == "pass"

    holds()


@pytest.mark.parametrize(
    "fault", ["beta_ignored", "gap_columns_written", "guard_off_by_one", "lda_taken_for_k", "misaligned_float4"]
)
def test_a_fault_of_scalars_layout_guards_or_alignment_is_found(fault, for_the_emulator, source_of):
    library = Library(for_the_emulator(source_of(fault)))

    def fails(product):
        return check_case(ON_CPU, library, *product)["verdict"] != "pass"

    case, seed = find(products(), fails, settings=settings(max_examples=300))
    assert fails((case, seed))
