"""The operands of measured launches: where they lie, and what the verification of a launch finds."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ladder.measure.devices import GUARD
from ladder.measure.operands import ALIGNED, AS_TIMED, Kind, OperandSets, Verification, kernels, regions
from ladder.model.shape import Shape
from ladder.system import nvml

sizes = st.integers(1, 300)
three = st.tuples(*[st.integers(0, 9)] * 3)


@given(st.builds(Shape, sizes, sizes, sizes), three, three)
def test_matrices_lie_apart_with_guards_around_and_their_own_gaps(shape, paddings, offsets):
    found = regions(shape, Kind(paddings=paddings, offsets=offsets))
    assert [(each.rows, each.columns) for each in found] == [
        (shape.m, shape.k),
        (shape.k, shape.n),
        (shape.m, shape.n),
    ]
    assert [each.ld - each.columns for each in found] == list(paddings)
    assert [(each.start + each.lead) % ALIGNED for each in found] == list(offsets)
    assert all(each.lead >= GUARD for each in found)
    assert all(each.length - each.lead - each.rows * each.ld == GUARD for each in found)
    assert all(one.start + one.length <= other.start for one, other in pairwise(found))


SOUND = Verification(changed=0, outside=0, unwritten=0, not_finite=0, worst=0.02)


def test_a_sound_launch_has_no_fault():
    assert SOUND.fault == ""


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({"changed": 3}, "3"),
        ({"outside": 4}, "4"),
        ({"unwritten": 5, "not_finite": 7}, "5"),
        ({"not_finite": 6}, "6"),
        ({"worst": 1.5}, "1.5"),
        ({"worst": np.nan}, "nan"),
    ],
)
def test_each_thing_that_is_found_is_a_fault_with_its_number(changes, number):
    assert number in Verification(**{**vars(SOUND), **changes}).fault


# On a GPU

gpu = [pytest.mark.gpu, pytest.mark.skipif(nvml.present() is None, reason="there is no GPU here")]
LAYOUT = {"paddings": (3, 0, 1), "offsets": (1, 2, 3)}
KINDS = {
    "as timed": AS_TIMED,
    "other scalars and layout": Kind(alpha=-1.25, beta=0.75, **LAYOUT),
    "wide": Kind(alpha=0.5, beta=1.0, spread="wide", **LAYOUT),
    "sparse": Kind(spread="sparse"),
}


class Launch:
    """Operands on the GPU, and the product that NumPy makes of them in C, rounded to FP32 once."""

    def __init__(self, kind: Kind) -> None:
        import cupy as cp

        shape = Shape(257, 130, 300)
        self.sets = OperandSets(kernels(), shape, kind, 1 << 22, cp.cuda.Stream(non_blocking=True))
        self.place = self.sets.places - 1
        self.sets.draw(self.place)
        self.sets.stream.synchronize()
        self.A, self.B, self.C = (self.view(region) for region in regions(shape, kind))
        A, B, C = (matrix.get().astype(np.float64) for matrix in (self.A, self.B, self.C))
        self.drawn = A, B
        product = float(np.float32(kind.alpha)) * (A @ B)
        if kind.beta:
            product += float(np.float32(kind.beta)) * C
        self.C[...] = cp.asarray(product.astype(np.float32))
        cp.cuda.runtime.deviceSynchronize()

    def view(self, region):
        """The elements of a matrix, on the GPU."""
        import cupy as cp

        words = self.sets._memory.view(cp.float32)[self.place * self.sets._words + region.start + region.lead :]
        return words[: region.rows * region.ld].reshape(region.rows, region.ld)[:, : region.columns]

    def found(self, precision: str = "fp32") -> Verification:
        """What the verification finds now."""
        import cupy as cp

        cp.cuda.runtime.deviceSynchronize()
        self.sets.verify(self.place, precision)
        return self.sets.verification()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
class TestVerification:
    """What `OperandSets.verify` finds of a product that NumPy made."""

    pytestmark = gpu

    def test_a_right_product_is_right_and_far_from_its_bound(self, kind):
        found = Launch(kind).found()
        assert found.fault == ""
        assert found.worst < 0.1

    def test_one_wrong_element_is_found(self, kind):
        launch = Launch(kind)
        size = float(abs(launch.C).max())
        launch.C[100, 77] += 0.5 * size
        assert launch.found().worst > 1

    def test_one_element_that_is_not_written_is_found(self, kind):
        launch = Launch(kind)
        launch.C[-1, -1] = np.nan
        assert launch.found().not_finite == 1

    def test_changed_inputs_are_found_where_the_product_is_that_of_the_changed_ones(self, kind):
        launch = Launch(kind)
        launch.A[...] = 0
        launch.C[...] = 0
        found = launch.found()
        assert found.changed > 0
        assert found.worst > 1

    def test_a_word_outside_of_c_is_found(self, kind):
        launch = Launch(kind)
        region = regions(launch.sets.shape, kind)[2]
        for before in (0, region.lead - 1, region.lead + region.rows * region.ld, region.length - 1):
            place = launch.place * launch.sets._words + region.start + before
            held = launch.sets._memory[place].copy()
            launch.sets._memory[place] = 0
            assert launch.found().outside >= 1
            launch.sets._memory[place] = held
        assert launch.found().outside == 0

    def test_inputs_rounded_to_tf32_are_found_in_fp32_and_not_in_tf32(self, kind):
        import cupy as cp

        launch = Launch(kind)
        if kind.beta:
            pytest.skip("the addend is gone by now")
        A, B = ((matrix.astype(np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32) for matrix in launch.drawn)
        launch.C[...] = cp.asarray((A.astype(np.float64) @ B).astype(np.float32))
        assert launch.found("fp32").worst > 1
        assert launch.found("tf32").fault == ""

    def test_each_draw_gives_other_operands(self, kind):
        launch = Launch(kind)
        first = launch.A.get()
        launch.sets.draw(launch.place)
        launch.sets.stream.synchronize()
        changed = launch.A.get() != first
        assert changed.mean() > (0.9 if kind.spread != "sparse" else 0.1)


@pytest.mark.parametrize("late", [False, True])
class TestGlimpse:
    """What is changed of C after a look at it."""

    pytestmark = gpu

    def test_only_what_is_written_later_is_late(self, late):
        launch = Launch(AS_TIMED)
        launch.sets.glimpse(launch.place, 0)
        launch.sets.stream.synchronize()
        if late:
            launch.C[...] += 1
        launch.sets.stream.synchronize()
        import cupy as cp

        cp.cuda.runtime.deviceSynchronize()
        assert bool(launch.sets.changed_since_glimpse(launch.place)) == late
