"""The process that compiles one image of a rung in cuTile; cuTile is imported here and nowhere else."""

from __future__ import annotations

import re
import subprocess
from typing import Any

from ladder.build.languages.worker import POINTERS, answer_with, load, place_of

_PLACED = re.compile(r'(.*?) "(?:[^"]*/)?([^"/]+)", line (\d+)')  # what is wrong, the file and its line


def compile_cutile(asked: dict[str, Any]) -> dict[str, Any]:
    """Compile the image that is asked for; threads, shared memory, or the error of the source."""
    import cuda.tile as ct
    from cuda.tile import compilation as cc

    if "version" in asked:
        return {"version": f"cutile {ct.__version__}"}
    kernel = load(asked["file"], asked["kernel"])
    if not isinstance(kernel, ct.kernel):
        return {"error": f"{asked['kernel']}: is no kernel of cuTile; put @ct.kernel above it"}
    aligned = {"stride_divisible_by": [4, 1], "base_addr_divisible_by": 16} if asked["aligned"] else {}
    array = cc.ArrayConstraint(
        ct.float32, 2, index_dtype=ct.int64, stride_lower_bound_incl=1, alias_groups=[], may_alias_internally=False,
        stride_constant=[None, 1], **aligned,
    )  # fmt: skip
    types = {**dict.fromkeys(POINTERS, array), "alpha": cc.ScalarConstraint(ct.float32)}
    types["beta"] = types["alpha"]
    given = [types.get(str(each), cc.ScalarConstraint(ct.int64)) for each in asked["arguments"]]
    constants = [cc.ConstantConstraint(value) for value in asked["constants"].values()]
    convention = cc.CallingConvention.cutile_python_v1()
    try:
        signature = cc.KernelSignature([*given, *constants], calling_convention=convention, symbol=asked["name"])
        code = re.sub(r"\D*$", "", asked["architecture"])
        cc.export_kernel(kernel, [signature], asked["output"], gpu_code=code, output_format="cubin")
    except ct.TileError as error:
        said = place_of(error, asked["file"])
        placed = _PLACED.match(said)
        return {"error": f"line {placed[3]} of {placed[2]}: {placed[1]}" if placed else said}
    return {"threads": threads_of(asked["output"]), "launch_threads": 1, "shared_bytes": 0}


def threads_of(cubin: str) -> int:
    """The threads of a block that a cubin was compiled for, as nvdisasm lists them."""
    from ladder.build.toolchain import require_tool

    listed = subprocess.run([require_tool("cuobjdump"), "-elf", cubin], capture_output=True, text=True, check=True)
    found = re.search(r"EIATTR_REQNTID\s+Format:\s+\S+\s+Value:\s+0x([0-9a-f]+)", listed.stdout)
    return int(found[1], 16) if found else 1


if __name__ == "__main__":
    answer_with(compile_cutile)
