"""What a report of Nsight Compute says: metrics by name and unit, hot lines, the instructions of loops, advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ladder.build import sass
from ladder.model.metrics import EXECUTED_AT, EXECUTED_OPCODES, is_kept, sampled_reason
from ladder.system.errors import LadderError


def extract(report: Path, log: Path) -> list[dict[str, Any]]:
    """The profiled kernels of a report, in their order.

    Each has its name, its metrics (name -> [value, unit]; those with a plain value), and what PARTS read: the advice of
    ncu's rules (section, rule, title, message, estimated speedup in percent or null), the source lines that warps were
    sampled at (`sampled_lines`), the ten most sampled instructions (`sampled_instructions`), how often warps executed
    each opcode (`opcodes`), and what warps waited for in the loop that multiplies (`loop_samples`). A part that a
    report has in another form than expected is empty, and the log says why: the rest of the profile is none the worse.

    Raises LadderError for a report that cannot be opened or holds no kernel.
    """
    import ncu_report

    kernels = []
    try:
        context = ncu_report.load_report(str(report))
        for range_index in range(context.num_ranges()):
            watched = context.range_by_idx(range_index)
            kernels += [kernel_of(watched.action_by_idx(index), log) for index in range(watched.num_actions())]
    except Exception as error:
        raise LadderError(f"ncu: {report}: cannot be read: {type(error).__name__}: {error}") from error
    if not kernels:
        raise LadderError(f"ncu: {report}: holds no kernel")
    return kernels


def kernel_of(action: Any, log: Path) -> dict[str, Any]:
    """What is kept of one profiled kernel (`extract`)."""
    kernel = {"kernel": action.name(), "metrics": _metrics(action)}
    for name, (read, without) in PARTS.items():
        try:
            kernel[name] = read(action)
        except Exception as error:
            kernel[name] = without()
            with log.open("a") as output:
                print(f"{kernel['kernel']}: no {name}: {type(error).__name__}: {error}", file=output)
    return kernel


def _metrics(action: Any) -> dict[str, list[Any]]:
    metrics = {}
    for name in sorted(action.metric_names()):
        if not is_kept(name):
            continue
        metric = action.metric_by_name(name)
        value = metric.value()
        if isinstance(value, (int, float, str)) and value == value:
            metrics[name] = [float(f"{value:.9g}") if isinstance(value, float) else value, metric.unit()]
    return metrics


HOTTEST = 10  # instructions that are kept of a profile


def _counts(action: Any, name: str, *, by_name: bool = False) -> dict[Any, int]:
    """What a metric counts at each instruction, by its address, or of each name; empty where it does not say."""
    metric = action.metric_by_name(name)
    ids = metric.correlation_ids() if metric is not None else None
    if ids is None:
        return {}
    key = ids.as_string if by_name else ids.as_uint64
    return {key(index): metric.as_uint64(index) for index in range(metric.num_instances())}


def _by_address(action: Any) -> dict[int, dict[str, int]]:
    """How often warps were sampled at each instruction, by its address and then by what they waited for."""
    found: dict[int, dict[str, int]] = {}
    for name in action.metric_names():
        reason = sampled_reason(name)
        for address, count in _counts(action, name).items() if reason else ():
            if count:
                found.setdefault(address, {})[reason] = count
    return dict(sorted(found.items()))


def _place(action: Any, address: int) -> tuple[str, int]:
    """The source file (as a path in this project where it is one) and line of an instruction; "" and 0 if unknown."""
    info = action.source_info(address)
    return ("", 0) if info is None else (sass.source_name(info.file_name()), info.line())


def sampled_lines(action: Any) -> list[dict[str, Any]]:
    """The source lines at which warps were sampled, in the order of file and line; none without line information.

    Each has its file, line, text (empty where neither the report nor this machine has the source) and samples (by what
    the warps waited for).
    """
    text = {file: content.splitlines() for file, content in dict(action.source_files()).items()}
    lines: dict[tuple[str, int], dict[str, Any]] = {}
    for address, samples in _by_address(action).items():
        file, number = _place(action, address)
        if not number:
            continue
        path = action.source_info(address).file_name()
        source = text.get(path, [])
        here = source[number - 1].strip() if number <= len(source) else sass.line_text(path, number)
        line = lines.setdefault((file, number), {"file": file, "line": number, "text": here, "samples": {}})
        for reason, count in samples.items():
            line["samples"][reason] = line["samples"].get(reason, 0) + count
    return [lines[place] for place in sorted(lines)]


def sampled_instructions(action: Any) -> list[dict[str, Any]]:
    """The instructions at which most warps were sampled, most first: offset (bytes), sass, file, line and samples."""
    addresses = _by_address(action)
    start = min([*addresses, *_counts(action, EXECUTED_AT)], default=0)
    hottest = sorted(addresses, key=lambda address: (-sum(addresses[address].values()), address))[:HOTTEST]
    found = []
    for address in hottest:
        file, line = _place(action, address)
        sass = " ".join(action.sass_by_pc(address).split())
        found.append(
            {"offset": address - start, "sass": sass, "file": file, "line": line, "samples": addresses[address]}
        )
    return found


def loop_samples(action: Any) -> dict[str, int]:
    """How often warps were sampled in the loop that multiplies, by what they waited for.

    So those are left out that only copy, or have nothing left to do. The loop is the outermost one (`sass.loops`) that
    holds the instruction of the fastest unit (`sass.unit_of`) that is executed most. Empty where none multiplies in
    a loop, or the report does not say how often instructions are executed.
    """
    counts = _counts(action, EXECUTED_AT)
    texts = {address: " ".join(action.sass_by_pc(address).split()) for address in sorted(counts)}
    body = [sass.Instruction(address, text) for address, text in texts.items() if text]
    ran = [each for each in body if counts[each.offset]]
    unit = sass.unit_of(ran)
    if not unit:
        return {}
    hottest = max((each for each in ran if each.is_of(unit)), key=lambda each: counts[each.offset])
    inside = {each.offset for each in max((loop for loop in sass.loops(body) if hottest in loop), key=len, default=())}
    found: Counter[str] = Counter()
    for address, samples in _by_address(action).items():
        if address in inside:
            found.update(samples)
    return dict(sorted(found.items()))


def opcodes(action: Any) -> dict[str, int]:
    """How often warps executed each opcode, by its name."""
    return dict(sorted(_counts(action, EXECUTED_OPCODES, by_name=True).items()))


def _advice(action: Any) -> list[dict[str, Any]]:
    advice = []
    for rule in action.rule_results_as_dicts():
        message = rule.get("rule_message")
        if not message:
            continue
        speedup = rule.get("speedup_estimation")
        advice.append(
            {
                "section": rule.get("section_identifier", ""),
                "rule": rule["rule_identifier"],
                "title": message.get("title", ""),
                "message": message.get("message", ""),
                "estimated_speedup_percent": speedup["speedup"] if speedup else None,
            }
        )
    return advice


# What is read of each kernel beside its metrics: by what, and what stands there where that fails.
PARTS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "advice": (_advice, list),
    "lines": (sampled_lines, list),
    "instructions": (sampled_instructions, list),
    "opcodes": (opcodes, dict),
    "loop": (loop_samples, dict),
}
