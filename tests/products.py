"""Products that Hypothesis draws: any shape, leading dimensions, scalars, alignments and family of inputs."""

from hypothesis import strategies as st
from ladder.measure.inputs import FAMILIES
from ladder.model.cases import Case
from ladder.model.precision import BOUNDS, NOT_ASKED
from ladder.model.shape import Shape

# Small, around the edges of tiles, and in between.
SIZES = st.integers(0, 9) | st.sampled_from([15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 129]) | st.integers(0, 140)
SCALARS = st.sampled_from([0, 1, -1]) | st.floats(-8, 8, width=32, allow_subnormal=False)


def families_for(precision):
    """The families of inputs that a rung of a precision has to compute right."""
    return [family for family in FAMILIES if family not in NOT_ASKED[BOUNDS[precision]]]


@st.composite
def products(draw, precision="fp32"):
    """A case of the check for rungs of a precision, and the seed of its inputs.

    A rung may multiply A or B by alpha first, so that of the family "largest" alpha must be 1 or -1.
    """
    sizes, alpha = [draw(SIZES) for _ in range(3)], draw(SCALARS)
    families = [family for family in families_for(precision) if family != "largest" or abs(alpha) == 1]
    case = Case(
        Shape(*sizes),
        alpha=alpha,
        beta=draw(SCALARS),
        padding=draw(st.tuples(*[st.integers(0, 9)] * 3)),  # A's, B's and C's
        offset=draw(st.tuples(*[st.integers(0, 7)] * 3)),
        family=draw(st.sampled_from(families)) if all(sizes) else "uniform",
    )
    return case, draw(st.integers(0, 2**32 - 1))
