"""Mutants: what each operator makes, how they are drawn and recorded, and that the record and its page are of today."""

import pytest
from ladder.records import store
from ladder.system.paths import ROOT
from mutants import Mutant, by_universalmutator, drawn, mutants_of, written
from mutation_operators import OPERATORS, Code

# What each operator makes of a line: the line, and all that becomes of it.
MADE = {
    "barrier dropped": (
        "__syncthreads(); block.sync(); int sync = 1;",
        ["; block.sync(); int sync = 1;", "__syncthreads(); ; int sync = 1;"],
    ),
    "arrival dropped": ("mbarrier_arrive(&full[0]);", [";"]),
    "fence dropped": ("*to = x; __threadfence();", ["*to = x; ;"]),
    "wait dropped": ("__pipeline_wait_prior(0);", [";"]),
    "commit dropped": ("wgmma_commit();", [";"]),
    "wait leaves one more": (
        "__pipeline_wait_prior(N - 2); wgmma_wait<0>();",
        ["__pipeline_wait_prior(N - 2 + 1); wgmma_wait<0>();", "__pipeline_wait_prior(N - 2); wgmma_wait<1>();"],
    ),
    "mask narrowed": (
        "__shfl_sync(0xFFFFFFFF, x, 0);",
        ["__shfl_sync(0x7FFFFFFF, x, 0);", "__shfl_sync(0x0000FFFF, x, 0);"],
    ),
    "atomic dropped": ("atomicAdd(p, 1); int old = atomicAdd(p, 1);", ["; int old = atomicAdd(p, 1);"]),
    "volatile dropped": ("volatile float x;", [" float x;"]),
    "end included": (
        "for (int i = 0; i < n; ++i) f<4>(a >= b);",
        ["for (int i = 0; i <= n; ++i) f<4>(a >= b);", "for (int i = 0; i < n; ++i) f<4>(a > b);"],
    ),
    "guard left out": ("if (row >= g.m) { return; } if (x) { y(); }", ["if (false) { return; } if (x) { y(); }"]),
    "condition always true": ("if (row < g.m) { y(); }", ["if (true) { y(); }"]),
    "condition never true": ("if (row < g.m) { y(); }", ["if (false) { y(); }"]),
    "part of condition forgotten": (
        "x = (a < m && b < n) ? p : q;",
        ["x = (a < m ) ? p : q;", "x = ( b < n) ? p : q;"],
    ),
    "choice forgotten": ("x = a < n ? *A : 0.0f;", ["x = a < n || true ? *A : 0.0f;"]),
    "tail forgotten": (
        "f(ceil_div(m, BM), (n + 255) / 256);",
        ["f(((m) / (BM)), (n + 255) / 256);", "f(ceil_div(m, BM), (n) / 256);"],
    ),
    "limit forgotten": ("x = min(row, g.m - 1);", ["x = (row);", "x = (g.m - 1);"]),
    "index one off": (
        "int x[2]; t[i][j] = 0;",
        [f"int x[2]; t{changed} = 0;" for changed in ("[i + 1][j]", "[i - 1][j]", "[i][j + 1]", "[i][j - 1]")],
    ),
    "leading dimension swapped": ("x = g.lda;", ["x = g.ldb;", "x = g.k;"]),
    "index swapped": (
        "f(row, tile_A, thread.x);",
        ["f(col, tile_A, thread.x);", "f(row, tile_B, thread.x);", "f(row, tile_A, thread.y);"],
    ),
    "stage swapped": (
        "f(now, frag[(p + 1) % 2], frag[p % 2], STAGES);",
        [
            "f(next, frag[(p + 1) % 2], frag[p % 2], STAGES);",
            "f(now, frag[p % 2], frag[p % 2], STAGES);",
            "f(now, frag[(p + 1) % 2], frag[(p + 1) % 2], STAGES);",
            "f(now, frag[(p + 1) % 2], frag[p % 2], (STAGES - 1));",
        ],
    ),
    "alpha forgotten": ("c = g.alpha * sum;", ["c = sum;", "c = g.beta * sum;"]),
    "beta forgotten": ("c = g.beta * *c;", ["c = *c;", "c = g.alpha * *c;"]),
    "narrowed to 32 bits": ("int64_t i = 0;", ["int i = 0;"]),
    "narrowed to 16 bits": ("int row = tile.row;", ["short row = tile.row;"]),
    "factor rounded to tf32": (
        "sum += a * b;",
        ["sum += __uint_as_float(__float_as_uint(a) + 0x1000u & 0xFFFFE000u) * b;"],
    ),
    "factor rounded to bf16": (
        "x = fmaf(a, b, c);",
        ["x = fmaf(__uint_as_float(__float_as_uint(a) + 0x8000u & 0xFFFF0000u), b, c);"],
    ),
    "factor rounded to half": (
        "sum += a * b;",
        [
            "sum += (fabsf(a) < 6.103515625e-5f ? rintf(a * 16777216.0f) / 16777216.0f : fminf(fmaxf(__uint_as_float(__float_as_uint(a) + 0x1000u & 0xFFFFE000u), -65504.0f), 65504.0f)) * b;"
        ],
    ),
    "shared array one smaller": (
        "__shared__ float tile[BM][BK];",
        ["__shared__ float tile[BM - 1][BK];", "__shared__ float tile[BM][BK - 1];"],
    ),
    "alignment left out": ("alignas(16) float x[4];", [" float x[4];"]),
    "initialisation left out": (
        "float sum[4] = {}; int n = 0;",
        ["float sum[4]; int n = 0;", "float sum[4] = {}; int n;"],
    ),
    "memset left out": ("return cudaMemsetAsync(p, 0, 4, s);", ["return cudaSuccess;"]),
    "stream left out": ("launch(k, grid, block, 0, stream, g);", ["launch(k, grid, block, 0, nullptr, g);"]),
    "error swallowed": ("return launch(k, stream, g);", ["launch(k, stream, g); return cudaSuccess;"]),
    "workspace one smaller": ("return sizeof(float) * m * n;", ["return -4 + sizeof(float) * m * n;"]),
    "ptx instruction dropped": (
        'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
        ['asm volatile("" ::: "memory");'],
    ),
    "parity flipped": ("mbarrier_wait(&full[0], parity);", ["mbarrier_wait(&full[0], (parity) ^ 1);"]),
    "count changed": ("mbarrier_init(b, 4);", ["mbarrier_init(b, (4) + 1);", "mbarrier_init(b, (4) - 1);"]),
    "clobber dropped": ('asm("bar;" ::"r"(x) : "memory");', ['asm("bar;" ::"r"(x));']),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_makes_what_its_name_says(name):
    line, expected = MADE[name]
    made = [line[: edit.start] + edit.new + line[edit.end :] for edit in OPERATORS[name](Code(line))]
    assert sorted(made) == sorted(expected)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_leaves_comments_and_directives_alone(name):
    line, _ = MADE[name]
    assert list(OPERATORS[name](Code(f"// {line}\n#define X {line}\nstatic_assert({line.partition(';')[0]});\n"))) == []
