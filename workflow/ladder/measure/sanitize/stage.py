"""The sanitize stage: compute-sanitizer's four tools on a rung's products at small shapes, and what they find."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ladder.build.compile import NOT_APPLICABLE, Build
from ladder.build.toolchain import find_tool
from ladder.measure.sanitize.misread import why_misread
from ladder.model.cases import Case
from ladder.system.errors import LadderError
from ladder.system.process import BROKEN, Outcome, blamed, start, stop

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TOOLKIT = "/usr/local/cuda/compute-sanitizer/compute-sanitizer"  # where a toolkit has it, beside its link in bin
MOST_FINDINGS = 20  # that a record keeps of one tool
UNKNOWN = "unknown"  # whether what a tool found is wrong with a rung

# Its lines start with nine equal signs; a finding is such a line of text, with indented lines below that say where.
_PREFIX = re.compile(r"^ ?=========( .*)?$")
_PLACE = re.compile(
    r"(?:^at |\baccess at )(?:\[clone [^]]*\] )?(?P<kernel>\S.*?)(?:\+0x[0-9a-f]+)?(?: in (?P<source>\S+:\d+))?"
    r"(?: \[\d+ hazards?\])?$"
)
_THREAD = re.compile(r"^by thread (?P<thread>\(\d+,\d+,\d+\)) in block (?P<block>\(\d+,\d+,\d+\))")
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards?)")
_INTERNAL = "Internal Sanitizer Error"
# What it says of itself or of the program, and not of a kernel.
_ABOUT = re.compile(
    rf"COMPUTE-SANITIZER|\w+ SUMMARY:|Target application|Error: (?!Race)|{_INTERNAL}|Warning: Detected overflow"
)


def require_sanitizer(configured: str = "auto") -> Path:
    """The configured compute-sanitizer, or that of the environment, the PATH or a toolkit; LadderError if none."""
    found = find_tool("compute-sanitizer", configured) or shutil.which(TOOLKIT)
    if found is None:
        raise LadderError(
            "compute-sanitizer: not found; it comes with the CUDA toolkit: put it on the PATH, or set its path in "
            "config/config.yaml: sanitize.compute_sanitizer"
        )
    return Path(found)


def sanitizer_version(sanitizer: Path) -> str:
    """What `compute-sanitizer --version` says, such as 2025.3.1.0; empty where it says nothing of the kind."""
    said = subprocess.run([str(sanitizer), "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version (\d[\d.]*)", said)
    return found.group(1) if found else ""


def sanitizer_command(sanitizer: Path, tool: str, library: Path, cases: Sequence[Case], device: int) -> list[str]:
    """The command line that runs the cases under one tool."""
    asked = json.dumps([case.as_record() for case in cases])
    program = [sys.executable, "-m", "ladder.measure.sanitize.worker", str(library), str(device), asked]
    return [str(sanitizer), "--tool", tool, "--demangle", "simple", "--show-backtrace", "no", *program]


def run_tool(
    sanitizer: Path,
    tool: str,
    library: Path,
    cases: Sequence[Case],
    device: int,
    time_limit_s: float,
    log: Path,
) -> dict[str, Any]:
    """Watch a library's products with one tool and return what it says.

    Keys: tool, verdict (`pass`; `failed`, where it found something or the rung did not run under it; `unknown`, where
    it says what it found of sound kernels, too; `broken`, where the machine kept it from its summary), message (empty
    for a pass), findings (see `read_findings`; at most MOST_FINDINGS), wall_s (seconds).
    """
    begun = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    command = sanitizer_command(sanitizer, tool, library, cases, device)
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    overdue = False
    try:
        output, _ = process.communicate(timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        overdue = True
        stop(process)
        output, _ = process.communicate()
    finally:
        stop(process)
    text = output.decode(errors="replace")
    with log.open("a") as file:
        file.write(f"{tool}:\n{text}\n")
    findings = read_findings(text)
    verdict, message = tool_verdict(text, findings, process.returncode, time_limit_s if overdue else None)
    if findings and (why := why_misread(tool, sanitizer_version(sanitizer), findings, library)):
        verdict, message = UNKNOWN, f"{why}: {message}"
    wall_s = round(time.monotonic() - begun, 3)
    return {
        "tool": tool,
        "verdict": verdict,
        "message": message,
        "findings": findings[:MOST_FINDINGS],
        "wall_s": wall_s,
    }


def tool_verdict(
    text: str, findings: Sequence[Mapping[str, str]], status: int, overdue_s: float | None
) -> tuple[str, str]:
    """The verdict and the line that says why, from a tool's output, its exit status and the limit that it exceeded."""
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        return "failed", finding_text(findings[0]) + more
    if fault := blamed(text):
        return "failed", fault
    if overdue_s is not None:
        return BROKEN, f"not done within {overdue_s:g} s; stopped; raise sanitize.time_limit_s"
    counts = [int(errors or hazards) for errors, hazards in _SUMMARY.findall(text)]
    if any(counts):
        return "failed", f"{max(counts)} errors; see the log"
    if not counts or status != 0 or _INTERNAL in text:
        lines = [line.lstrip("= ").strip() for line in text.splitlines() if not _SUMMARY.search(line)]
        errors = [line for line in lines if "rror" in line and not line.startswith(("Target", "Error: process"))]
        return BROKEN, (errors or [line for line in lines if line] or ["nothing was printed"])[-1]
    return "pass", ""


def read_findings(text: str) -> list[dict[str, str]]:
    """The findings in compute-sanitizer's output, one for each text and place.

    Each has its text (`Invalid __global__ read of size 4 bytes`), kernel (demangled, without parameters), source
    (`naive.cu:23`), other (the source of the other access of a race), thread and block; empty where it is not said.
    """
    findings: list[dict[str, str]] = []
    for line in text.splitlines():
        found = _PREFIX.match(line)
        content = (found.group(1) or "")[1:] if found else ""
        if content.startswith("    ") and findings:
            _add_place(findings[-1], content.strip())
        elif content.strip() and not content.startswith(" ") and not _ABOUT.match(content):
            findings.append({"text": content, **dict.fromkeys(("kernel", "source", "other", "thread", "block"), "")})
            if " access at " in content:
                findings[-1]["text"] = content.partition(" at ")[0]
                _add_place(findings[-1], content)
    return _distinct(findings)


def _add_place(finding: dict[str, str], text: str) -> None:
    """Add to a finding what one of its lines says of kernel, source and thread."""
    if (thread := _THREAD.match(text)) and not finding["thread"]:
        finding.update(thread.groupdict())
    place = _PLACE.search(text)
    if place and not finding["kernel"]:
        finding["kernel"], finding["source"] = place["kernel"].partition("(")[0], _file(place["source"])
    elif place and not finding["other"]:
        finding["other"] = _file(place["source"])


def _file(source: str | None) -> str:
    return (source or "").rpartition("/")[2]


def _distinct(findings: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """One finding for each text, kernel and source: the first."""
    keys = ("text", "kernel", "source", "other")
    return list({tuple(finding[key] for key in keys): finding for finding in reversed(findings)}.values())[::-1]


def finding_text(finding: Mapping[str, str]) -> str:
    """A finding in one line."""
    parts = [finding["text"]]
    if finding["kernel"]:
        parts.append(f"in {finding['kernel']}")
    if finding["block"]:
        parts.append(f"block {finding['block']} thread {finding['thread']}")
    places = "; the other: ".join(filter(None, (finding["source"], finding["other"])))
    return " ".join(parts) + (f"; {places}" if places else "")


def sanitize_rung(
    made: Build,
    sanitizer: Path,
    cases: Sequence[Case],
    device: int,
    time_limit_s: float,
    environment: Callable[[dict[str, Any]], dict[str, Any]],
    log: Path,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Watch a rung with all tools at a time, for none of them is a clock, and return the record.

    Keys: status (`pass`, `failed`, `unknown`, or the compile record's where it did not compile), message, sanitizer
    (its version), where, cases, tools (`run_tool`'s, of those that came to a verdict). Raises LadderError where the
    machine broke a tool off and none of the others failed.
    """
    compiled = made.record
    if compiled["status"] != "ok":
        return {"status": compiled["status"], "message": compiled["message"], "cases": [], "tools": []}
    where = environment(compiled)

    def watch(tool: str) -> dict[str, Any]:
        found = run_tool(sanitizer, tool, made.library, cases, device, time_limit_s, log)
        progress(f"{tool}: {found['verdict']}")
        return found

    with ThreadPoolExecutor(len(TOOLS)) as pool:
        tools = list(pool.map(watch, TOOLS))
    worst = next((tool for bad in ("failed", BROKEN, UNKNOWN) for tool in tools if tool["verdict"] == bad), None)
    if worst and worst["verdict"] == BROKEN:
        Outcome(BROKEN, worst["message"]).of_the_work(f"sanitize: {made.folder.name}: {worst['tool']}")
    status, message = (worst["verdict"], f"{worst['tool']}: {worst['message']}") if worst else ("pass", "")
    version = sanitizer_version(sanitizer)
    return {
        "status": status, "message": message, "sanitizer": version, "where": where,
        "cases": [case.as_record() for case in cases],
        "tools": [tool for tool in tools if tool["verdict"] != BROKEN],
    }  # fmt: skip


def sanitizer_report(found: Sequence[Mapping[str, Any]], measuring: bool, gpu: str) -> tuple[str, bool]:
    """What `snakemake sanitize` says: a line for each record, its findings below; and whether it should fail.

    Raises LadderError where nothing is measured and nothing is recorded.
    """
    if not found:
        raise LadderError(
            f"sanitize: compute-sanitizer needs a GPU, none is measured here, and nothing is recorded for {gpu}; "
            "run `snakemake sanitize` where `nvidia-smi` lists one"
        )
    lines = [] if measuring else ["gemm-ladder: sanitize: no GPU is measured; this is what was recorded"]
    width = max(len(record["rung"]) for record in found)
    for record in found:
        lines.append(f"{record['rung']:<{width}}  {record['status']}  {record['message']}".rstrip())
        for tool in record["tools"]:
            lines += [f"    {tool['tool']}: {finding_text(finding)}" for finding in tool["findings"]]
    bad = [record for record in found if record["status"] not in ("pass", NOT_APPLICABLE, UNKNOWN)]
    return "\n".join(lines) + "\n", bool(bad)
