"""What ptxas says of each kernel: registers, shared memory, stack, spills; and what nvcc warns of."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping

from ladder.config.wrapper import MAIN_OF_SOURCE

_FUNCTION = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_USED = re.compile(r"Used (\d+) registers")
_STATIC = re.compile(r"(\d+) bytes smem")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_WARNING = re.compile(r"^(\S.*\(\d+\)): warning #\S+: (.+)$", re.MULTILINE)
_KERNEL = re.compile(r"^[^<(]*?(\w+)(?=[<(]|$)")
_OF_CUBIN = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")


def resource_report(log: str) -> dict[str, dict[str, int]]:
    """What `ptxas -v`, or of a cubin `cuobjdump -res-usage`, says of each kernel, by its mangled name.

    Keys: registers (a thread), static_shared_bytes (a block), stack_bytes, spill_store_bytes and spill_load_bytes
    (a thread); of a cubin no spills.
    """
    report: dict[str, dict[str, int]] = {}
    current: dict[str, int] = {}
    for line in log.splitlines():
        if match := _FUNCTION.search(line):
            current = report.setdefault(match[1], {})
        elif match := _STACK.search(line):
            current |= {
                "stack_bytes": int(match[1]),
                "spill_store_bytes": int(match[2]),
                "spill_load_bytes": int(match[3]),
            }
        elif match := _USED.search(line):
            shared = _STATIC.search(line)
            current |= {"registers": int(match[1]), "static_shared_bytes": int(shared[1]) if shared else 0}
    for name, registers, stack, shared_bytes in _OF_CUBIN.findall(log):
        numbers = {"registers": registers, "static_shared_bytes": shared_bytes, "stack_bytes": stack}
        report[name] = {key: int(value) for key, value in numbers.items()}
    return report


def device_variable_bytes(log: str) -> int:
    """The bytes of the `__device__` variables of a library, as `ptxas -v` has them of each source."""
    return sum(map(int, re.findall(r"(\d+) bytes gmem", log)))


# What an SM has, and what it gives a warp at a time: CUDA C++ Programming Guide, Technical Specifications per Compute
# Capability, and the rounding of cuda_occupancy.h.
REGISTERS = 1 << 16
_REGISTERS_AT_A_TIME, _WARPS_AT_A_TIME, _LANES = 8, 4, 32


def too_many_registers(blocks: Mapping[str, int], log: str) -> str:
    """Which kernel cannot be launched with so many threads, for nvcc gives each so many registers; empty for none.

    `blocks` are the threads of a kernel's largest block, by its mangled name or what the source calls it. `log` is
    nvcc's, as of `resource_report`. Of kernels of one name, such as a template's, the one with the fewest registers
    counts, where the mangled name does not tell them apart.
    """
    report = resource_report(log)
    names = {symbol: _own_name(name) for symbol, name in demangled([*report, *blocks]).items()}
    for kernel, threads in blocks.items():
        of = [kernel] if kernel in report else [each for each in report if names[each] == names[kernel]]
        registers = min((report[each].get("registers", 0) for each in of), default=0)
        a_thread = -(-registers // _REGISTERS_AT_A_TIME) * _REGISTERS_AT_A_TIME
        a_block = a_thread * -(-threads // (_LANES * _WARPS_AT_A_TIME)) * _LANES * _WARPS_AT_A_TIME
        if a_block > REGISTERS:
            return (
                f"launch: {names[kernel]} is launched with {threads} threads in a block, and nvcc gives a thread "
                f"{registers} registers: {a_block} are more than the {REGISTERS} of an SM; "
                f"write __launch_bounds__({threads}), or launch fewer threads"
            )
    return ""


def _own_name(name: str) -> str:
    """A kernel's name without its namespaces, arguments and parameters."""
    found = _KERNEL.search(name.replace("(anonymous namespace)::", ""))
    return found[1] if found else name


def first_warning(log: str) -> str:
    """The first warning of nvcc with its place in the source, in words that go behind a message; empty without one.

    What it says of a wrapped source's `main` is none: by the name that the wrapper gives it, it needs a return.
    """
    found = next((each for each in _WARNING.finditer(log) if MAIN_OF_SOURCE not in each[2]), None)
    return f"; nvcc warns: {found[1]}: {found[2]}" if found else ""


def demangled(symbols: list[str]) -> Mapping[str, str]:
    """The C++ names of mangled symbols, through binutils' c++filt; a symbol is its own name where there is none."""
    filter_program = shutil.which("c++filt")
    if filter_program is None or not symbols:
        return {symbol: symbol for symbol in symbols}
    result = subprocess.run([filter_program], input="\n".join(symbols), capture_output=True, text=True, check=False)
    return dict(zip(symbols, result.stdout.splitlines(), strict=False))
