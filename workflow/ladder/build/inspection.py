"""The inspect stage: what a compiled rung says of itself on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ladder.build import sass
from ladder.build.compile import Build
from ladder.build.occupancy import occupancy
from ladder.build.resources import demangled, resource_report
from ladder.build.toolchain import Nvcc
from ladder.model.cases import Case
from ladder.model.gpu import Gpu
from ladder.system.process import run_worker

UNUSABLE = "unusable"
TIME_LIMIT_S = 60.0


def inspect(
    made: Build,
    shapes: list[str],
    gpu: Gpu,
    log: Path,
    nvcc: Nvcc | None = None,
    calculator: Path | None = None,
    products: Sequence[Case] = (),
) -> dict[str, Any]:
    """The inspection record of a rung.

    Keys: status and message (the compile record's, or `unusable` and why the library cannot be asked), kernels (name,
    symbol, what `resource_report` gives for each kernel of the library, and its `code`), launches (for each shape the
    launches that the rung makes on a GPU with as many SMs: symbol, grid, block, dynamic_shared_bytes, and the
    `occupancy` where the calculator is given, and `tiles`: the blocks that it has where SMs are no limit, null where
    these have no end), workspace_bytes (for each shape what the rung asks for on a GPU with as many SMs), ways
    (for each of the products its shape, padding and the names of the kernels that are launched, in their order). `code`
    is what `sass.code_summary` says of the whole kernel and of its inner loop (null where none multiplies), with that
    loop as SASS and PTX and the source lines that it is of (`sass.source_lines`); null where the kernel is launched at
    none of the shapes.
    """
    compiled = made.record
    record: dict[str, Any] = {key: compiled[key] for key in ("status", "message", "rung")}
    record |= {key: compiled.get(key, "") for key in ("nvcc", "compiler", "architecture", "source_digest")}
    report = resource_report(compiled["log"]) if compiled["status"] == "ok" else {}
    launches: dict[str, Any] = {}
    workspace: dict[str, int] = {}
    ways: list[tuple[dict[str, Any], list[str]]] = []
    if compiled["status"] == "ok":
        request = {"library": str(made.library), "shapes": shapes, "sms": gpu.sms}
        request |= {"products": [case.as_record() for case in products]}

        def keep(event: dict[str, Any]) -> None:
            if "product" in event:
                ways.append((event["product"], event["kernels"]))
                return
            launches[event["shape"]] = event["launches"]
            workspace[event["shape"]] = event["workspace_bytes"]

        outcome = run_worker("ladder.build.inspect_worker", request, keep, TIME_LIMIT_S, log)
        outcome = outcome.of_the_work(f"inspect: {compiled['rung']}")
        if outcome.status != "ok":
            record |= {"status": UNUSABLE, "message": outcome.message}
    made_launches = [launch for at_shape in launches.values() for launch in at_shape]
    code = _code(made, {launch["symbol"] for launch in made_launches} & set(report), nvcc)
    names = {symbol: name.split("(")[0] for symbol, name in demangled(list(report)).items()}
    record["kernels"] = [
        {"kernel": names[symbol], "symbol": symbol, **resources, "code": code.get(symbol)}
        for symbol, resources in report.items()
    ]
    for launch in made_launches:
        resources = report.get(launch["symbol"])
        threads = launch["block"][0] * launch["block"][1] * launch["block"][2]
        if calculator is not None and resources:
            launch["occupancy"] = occupancy(
                calculator, gpu, resources["registers"], resources["static_shared_bytes"], threads,
                launch["dynamic_shared_bytes"],
            )  # fmt: skip
    record["ways"] = [
        {key: case[key] for key in ("shape", "padding")} | {"kernels": [names.get(each, each) for each in kernels]}
        for case, kernels in ways
    ]
    return record | {"launches": launches, "workspace_bytes": workspace}


def _code(made: Build, symbols: set[str], nvcc: Nvcc | None) -> dict[str, Any]:
    """What these kernels of a library compiled to, by their mangled names."""
    bodies = sass.disassemble(made.library, symbols, nvcc) if symbols else {}
    ptx = "".join(path.read_text() for path in sorted(made.folder.glob("*.ptx")))
    found = {}
    for symbol in symbols:
        body = bodies.get(symbol, [])
        loop = sass.inner_loop(body)
        found[symbol] = {
            "whole": sass.code_summary(body),
            "loop": sass.code_summary(loop) if loop else None,
            "loop_sass": [f"{each.offset:04x}  {each.text}" for each in loop],
            "loop_ptx": sass.ptx_loop(ptx, symbol) if loop else [],
            "loop_lines": sass.source_lines(loop),
        }
    return found


def multiplying_kernel(inspection: dict[str, Any], shape: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The launch at a shape, and its kernel, that computes the product, by the inner loops (`sass.multiplications`).

    None where the rung makes no such launch through the contract, as cuBLAS does.
    """
    kernels = {kernel["symbol"]: kernel for kernel in inspection["kernels"]}
    computing = [
        (launch, kernels[launch["symbol"]])
        for launch in inspection["launches"].get(shape, [])
        if ((kernels.get(launch["symbol"]) or {}).get("code") or {}).get("loop")
    ]
    return max(computing, key=lambda pair: sass.multiplications(pair[1]["code"]["loop"]["mix"]), default=None)
