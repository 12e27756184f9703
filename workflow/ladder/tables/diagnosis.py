"""Why a rung is not faster: where its issue slots go, by stated rules from Nsight Compute's metrics.

Every cycle each scheduler of an SM has one issue slot. A slot holds an FFMA, another instruction, or nothing; the
empty ones are shared out to what warps waited for, by the cycles that they waited. So the shares of a kernel add up to
100 %. Where tensor cores multiply, one instruction keeps them busy for many cycles, so the cycles of their pipe stand
for the slots: it works, or it idles while warps issue other instructions or wait. What is measured by another clock, as
bank conflicts are by the cycles of the load/store pipe, is no share of these and is listed behind them. Names of stall
reasons: NVIDIA, Nsight Compute Profiling Guide, «Metrics Reference: Warp Stall Reasons». A rule takes a `Profile` and
gives its `Limit`s, none where it does not apply.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ladder.build.sass import class_of, line_text, multiplications
from ladder.model.metrics import stall_counters, value_of

_SAMPLED = {"no_instructions": "no_instruction"}  # reasons that samples name otherwise than averages
_NO_STALLS = ("selected", "not_selected")  # a warp that issues, or could
TENSOR_CORES, FP32_UNITS = "tensor cores", "FP32 units"  # the limits that a kernel may be content with
LEAST = 3.0  # percent below which a limit is not listed
LARGE = 10.0  # percent of the slots: a cause of less is one of many, and without it a rung is hardly faster
# What shares are shares of.
SLOTS, TENSOR_PIPE = "the issue slots", "the tensor pipe's cycles"
LOAD_PIPE, TIME = "the load/store pipe's cycles", "the kernel's time"


@dataclass(frozen=True)
class Profile:
    """The metrics of one profiled kernel, as recorded, and the samples of its loop that multiplies.

    Where tensor cores multiply, read cycles of their pipe for `issue slots`: `share_of` says which it is.
    """

    metrics: Mapping[str, Any]
    loop: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Mapping[str, Any]) -> Profile:
        """The profile of a recorded kernel."""
        return cls(kernel["metrics"], kernel.get("loop") or {})

    def get(self, name: str) -> float:
        """A metric's value, by our name; not a number where the record has none."""
        return value_of(self.metrics, name)

    def ratio(self, over: str, under: str) -> float:
        """One metric over another; 0 where the second is 0."""
        below = self.get(under)
        return self.get(over) / below if below else 0.0

    @cached_property
    def stalls(self) -> dict[str, float]:
        """Cycles that a warp waits for each reason, for each instruction that it issues."""
        return {reason: float(self.metrics[counter][0]) for reason, counter in stall_counters(self.metrics).items()}

    @cached_property
    def waits(self) -> dict[str, float]:
        """What warps wait for while slots are empty, in shares of 1.

        By the samples in the loop that multiplies, for a warp that only copies, or has nothing left to do, keeps no
        slot empty by its waiting. By the averages over all warps where the record has no such samples.

        Where tensor cores multiply, a warp that issues meanwhile is one of the reasons: selected. One that waits for
        their pipe (Math Pipe Throttle) is none: it is a pipe at work that it waits for.
        """
        no_stalls = ("not_selected", "math_pipe_throttle") if self.tensor else _NO_STALLS
        sampled = {_SAMPLED.get(reason, reason): float(count) for reason, count in self.loop.items()}
        kept = {reason: weight for reason, weight in (sampled or self.stalls).items() if reason not in no_stalls}
        total = sum(kept.values())
        return {reason: weight / total for reason, weight in kept.items()} if total else {}

    @cached_property
    def tensor(self) -> float:
        """Percent of the cycles in which the tensor pipes work, where tensor cores multiply; 0 where they do not.

        They multiply where the pipes work in more than a twentieth of the cycles.
        """
        works = self.get("tensor_pipe_active")
        return works if works > 5 else 0.0

    @property
    def share_of(self) -> str:
        """What most shares of this kernel are shares of: SLOTS or TENSOR_PIPE."""
        return TENSOR_PIPE if self.tensor else SLOTS

    @property
    def empty(self) -> float:
        """Percent of issue slots in which no warp could issue; of cycles in which tensor pipes that multiply idle."""
        if self.tensor:
            return 100 - self.tensor
        return 100 - self.get("issue_slots_busy")

    @property
    def issued(self) -> float:
        """Percent of issue slots that hold an instruction; 0 where tensor cores multiply, as it costs them no cycle."""
        return 0.0 if self.tensor else 100 - self.empty

    @property
    def ffma(self) -> float:
        """Percent of executed instructions that are FFMAs."""
        a_cycle = self.get("ffma_per_cycle") / 32
        return 100 * a_cycle * self.get("scheduler_cycles") / self.get("executed_instructions")

    @property
    def shared(self) -> float:
        """Percent of executed instructions that load from or store to shared memory."""
        return self._executed("shared_loads", "shared_stores")

    @property
    def global_(self) -> float:
        """Percent of executed instructions that load from or store to global memory, or copy from it."""
        return self._executed("global_loads", "global_stores", "global_copies")

    def _executed(self, *names: str) -> float:
        """Percent of executed instructions that these metrics count; what the record has not counts as none."""
        counted = sum(count for name in names if not math.isnan(count := self.get(name)))
        return 100 * counted / self.get("executed_instructions")

    def wavefronts_per_ffma(self, sms: float) -> float:
        """Passes of the load/store data pipes of so many SMs for each FFMA of a warp; not a number where unrecorded."""
        busy = self.get("load_pipe_busy") / 100  # one a cycle and SM
        ffmas = self.get("ffma_per_cycle") / 32
        return busy * sms / ffmas if ffmas else math.nan

    def lost_to(self, *reasons: str) -> float:
        """Percent of issue slots that stay empty for these reasons (`waits`)."""
        return self.empty * sum(self.waits.get(reason, 0.0) for reason in reasons)

    def limit(self, rule: str, percent: float, evidence: str, of: str = "") -> Limit:
        """A limit of this kernel, in shares of its slots unless it says of what."""
        return Limit(rule, percent, of or self.share_of, evidence)

    def waiting(self, rule: str, *reasons: str, taken: float = 0.0, more: str = "") -> Limit:
        """A limit of warps that wait for these reasons, and of the slots that what they wait for has `taken`."""
        lost = self.lost_to(*reasons)
        if taken >= 0.5:
            more += f" These take {taken:.0f} % of the issue slots, and the waits leave {lost:.0f} % empty."
        return self.limit(rule, lost + taken, f"{_waits(self, *reasons)} {more}".rstrip())


@dataclass(frozen=True)
class Limit:
    """What limits a kernel: the rule that says so, how many percent of what it takes, and the evidence in sentences."""

    rule: str
    percent: float
    of: str
    evidence: str


def slot_uses(profile: Profile) -> dict[str, float]:
    """Where the issue slots go, in percent: FFMA, tensor cores, other instructions, and empty ones by stall reason."""
    waits = [reason for reason in {**profile.stalls, **profile.waits} if reason not in _NO_STALLS]
    ffmas = profile.issued * profile.ffma / 100
    return {
        "FFMA": ffmas,
        TENSOR_CORES: profile.tensor,
        "other instructions": profile.lost_to("selected") if profile.tensor else profile.issued - ffmas,
        **{reason: profile.lost_to(reason) for reason in waits},
    }


def uncoalesced(profile: Profile) -> Iterator[Limit]:
    """Loads whose warps touch more 32-byte sectors than their bytes need, where warps wait for global memory.

    NVIDIA, CUDA C++ Best Practices Guide, «Coalesced Access to Global Memory»; Nsight Compute counts the excess as
    theoretical sectors. Applies where more than a tenth of them is excess; the slots are those of `global_loads`.
    """
    excess = profile.ratio("global_excessive_sectors", "global_sectors")
    if excess > 0.1:
        sectors = profile.ratio("global_load_sectors", "global_load_requests")
        text = f"A load touches {sectors:.1f} sectors; {_percent(excess)} of all sectors touched are not needed."
        yield replace(_of_global_memory(profile), rule="uncoalesced global loads", evidence=text)


def global_loads(profile: Profile) -> Iterator[Limit]:
    """Coalesced global loads: warps that wait for a place in their queue (LG Throttle) or for data (Long Scoreboard).

    Nsight Compute Profiling Guide: LG Throttle is of too many local and global accesses in flight. The slots are the
    waits' and those of the accesses themselves.
    """
    if not any(uncoalesced(profile)):
        yield _of_global_memory(profile)


def _of_global_memory(profile: Profile) -> Limit:
    share, hit = profile.global_, profile.get("l2_hit_rate")
    text = f"{share:.0f} % of the instructions access global memory. " if share >= 0.5 else ""
    text += f"The L2 cache holds {hit:.0f} % of the sectors."
    rule, taken = "global loads (queue and latency)", profile.issued * share / 100
    return profile.waiting(rule, "lg_throttle", "long_scoreboard", taken=taken, more=text)


def mio_queue(profile: Profile) -> Iterator[Limit]:
    """Warps that wait for shared memory: a place in the MIO queue (MIO Throttle) or its data (Short Scoreboard).

    Nsight Compute Profiling Guide; the shared-memory worklogs quote MIO Throttle, which is the same queue from the side
    of the warp whose load is not yet in it. The slots are the waits' and those of the shared accesses themselves.
    """
    text = f"{profile.shared:.0f} % of the instructions access shared memory."
    taken = profile.issued * profile.shared / 100
    yield profile.waiting("MIO queue (shared memory)", "mio_throttle", "short_scoreboard", taken=taken, more=text)


def shared_conflicts(profile: Profile) -> Iterator[Limit]:
    """Shared loads and stores of more passes: CUDA C++ Best Practices Guide, «Shared Memory and Memory Banks».

    Nsight Compute's counters also count waits for the data path; only with theoretical excess wavefronts (`shared
    excessive`), and where conflicts are more than a twentieth of the wavefronts, is it the access pattern. The share is
    of the cycles of the load/store pipe: those in which it repeats a pass because of a conflict.
    """
    for access in ("load", "store"):
        share = profile.ratio(f"shared_{access}_conflicts", f"shared_{access}_wavefronts")
        if profile.get("shared_excessive_wavefronts") > 0 and share > 0.05:
            passes = profile.ratio(f"shared_{access}_wavefronts", f"shared_{access}s")
            text = f"A shared {access} takes {passes:.1f} passes; bank conflicts cause {_percent(share)} of them."
            taken = share * profile.get(f"shared_{access}_busy")
            yield profile.limit(f"bank conflicts in shared {access}s", taken, text, LOAD_PIPE)


def barriers(profile: Profile) -> Iterator[Limit]:
    """Warps that wait for the others of their block: stalls Barrier and Membar."""
    yield profile.waiting("barriers", "barrier", "membar")


def dispatch(profile: Profile) -> Iterator[Limit]:
    """Warps whose chosen instruction is held back: stalls Dispatch and Math Pipe Throttle.

    Nsight Compute Profiling Guide: conflicts or resources that are not there, among them the ports of the register file
    (see the register-bank conflicts of the inner loop in the table of instructions).
    """
    reasons = ("dispatch_stall",) if profile.tensor else ("dispatch_stall", "math_pipe_throttle")
    yield profile.waiting("dispatch and register ports", *reasons)


def dependencies(profile: Profile) -> Iterator[Limit]:
    """Warps that wait a fixed time for their own last instruction, for the next one to be fetched, or for a branch.

    Stalls Wait, No Instruction, Branch Resolving and IMC Miss, in cycles in which no other warp could issue.
    """
    reasons = ("wait", "no_instruction", "branch_resolving", "imc_miss")
    text = f"A scheduler has {profile.get('active_warps'):.1f} warps to hide these waits."
    yield profile.waiting("fixed latencies and instruction fetch", *reasons, more=text)


def overhead(profile: Profile) -> Iterator[Limit]:
    """Issue slots that hold neither an FFMA nor an access to memory: addresses, guards, loops and barriers.

    Where an SM has 128 FP32 lanes an FFMA needs a slot in every cycle, so each other instruction is paid for. Where
    tensor cores multiply, it is what warps issue while their pipe idles.
    """
    share = profile.issued * (100 - profile.ffma - profile.shared - profile.global_) / 100
    text = f"{profile.ffma:.0f} % of the instructions are FFMAs."
    if profile.tensor:
        share = profile.lost_to("selected")
        text = f"Instructions fill {profile.get('issue_slots_busy'):.0f} % of the issue slots."
    yield profile.limit("addresses, guards and other instructions", share, text)


def fp32_units(profile: Profile) -> Iterator[Limit]:
    """FP32 units that work in most cycles: nearer than this to their peak there is little left to gain.

    Nsight Compute Profiling Guide, «Pipelines»: FMA. Applies where it works in more than three quarters of the cycles.
    It applies too where it works in more than half of them and more than the load/store pipe does, while no cause takes
    a LARGE share of the slots: what is left to gain is then spread over many small ones. The slots are the FFMAs'.
    """
    busy = profile.get("fma_pipe_active")
    busiest = busy > max(50.0, profile.get("load_pipe_busy")) and not _large_cause(profile)
    if (busy > 75 or busiest) and not profile.tensor:
        text = f"The FP32 pipe is busy in {busy:.0f} % of the cycles."
        yield profile.limit(FP32_UNITS, profile.issued * profile.ffma / 100, text)


def tensor_pipe(profile: Profile) -> Iterator[Limit]:
    """Tensor cores that work in most cycles: nearer than this to their peak only fewer products make it faster.

    NVIDIA's answer in its developer forum, topic 355164: the metric counts the work of both HMMA and HGMMA.
    """
    if profile.tensor > 60:
        text = f"The tensor pipe is busy in {profile.tensor:.0f} % of the cycles."
        yield profile.limit(TENSOR_CORES, profile.tensor, text)


def tensor_results(profile: Profile) -> Iterator[Limit]:
    """Warps that wait for what tensor cores compute: stalls GMMA and Warpgroup Arrive.

    Applies where tensor cores multiply. The slots are cycles in which the pipe idles meanwhile, as between a product
    and the next that adds to it.
    """
    if profile.tensor:
        yield profile.waiting("results of tensor cores", "gmma", "warpgroup_arrive")


def bandwidth(profile: Profile) -> Iterator[Limit]:
    """Device memory near its bandwidth: the roofline's slanted part (S. Williams et al., 2009)."""
    used = profile.get("dram_throughput")
    if used > 60:
        yield profile.limit("DRAM bandwidth", profile.empty, f"The kernel uses {used:.0f} % of the DRAM bandwidth.")


def tail(profile: Profile) -> Iterator[Limit]:
    """A last wave of blocks that leaves SMs idle, of few waves.

    The share is of the kernel's time: 100 % less the share of the elapsed cycles in which an SM is active.
    """
    active = profile.ratio("sm_active_cycles", "sm_elapsed_cycles")
    if 0 < active < 1:
        filled = f"The blocks fill the GPU {profile.get('waves'):.2f} times"
        text = f"{filled}; an SM has work in {_percent(active)} of the time."
        yield profile.limit("tail of the last wave", 100 * (1 - active), text, TIME)


CAUSES: tuple[Callable[[Profile], Iterator[Limit]], ...] = (  # of slots that hold no FFMA
    *(uncoalesced, global_loads, mio_queue, shared_conflicts, barriers, dispatch, dependencies, overhead),
)
RULES = (*CAUSES, fp32_units, tensor_pipe, tensor_results, bandwidth, tail)


def _large_cause(profile: Profile) -> bool:
    """Whether one cause alone takes a LARGE share of what the kernel's work is a share of."""
    return any(limit.percent >= LARGE and limit.of == profile.share_of for rule in CAUSES for limit in rule(profile))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _waits(profile: Profile, *reasons: str) -> str:
    """How long warps wait for these reasons, the longest first; what is next to nothing is not named.

    `A warp issues an instruction every 33.6 cycles. It waits 19.4 of these (mio throttle 17.4, short scoreboard 2.0),
    which are 42 % of all waits in the loop that multiplies.`
    """
    cycles = {reason: profile.stalls.get(reason, 0.0) for reason in reasons}
    named = sorted(reasons, key=lambda reason: -cycles[reason])
    named = [reason for reason in named if cycles[reason] >= 0.05] or named[:1]
    words = [reason.replace("_", " ") + (f" {cycles[reason]:.1f}" if len(named) > 1 else "") for reason in named]
    waited, whole = sum(cycles.values()), sum(profile.stalls.values())
    text = f"A warp issues an instruction every {whole:.1f} cycles. It waits {waited:.1f} of these ({', '.join(words)})"
    if profile.loop:
        share = sum(profile.waits.get(reason, 0.0) for reason in reasons)
        text += f", which are {_percent(share)} of all waits in the loop that multiplies"
    return f"{text}."


def diagnose(profile: Profile, least: float = LEAST) -> list[Limit]:
    """What limits a kernel, in shares of its issue slots, most first; then what is a share of something else.

    Limits below `least` percent are left out, but for bank conflicts, which a rung can mend whatever they cost.
    """
    kept = [limit for rule in RULES for limit in rule(profile) if limit.percent >= least or limit.of == LOAD_PIPE]
    return sorted(kept, key=lambda limit: (limit.of != profile.share_of, -limit.percent))


def multiplying_profile(kernels: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of the kernels of one product the one that computes it, by what warps executed (`sass.multiplications`).

    Of equals, as where a record was made before opcodes were kept, the one that takes the longest.
    """

    def rank(kernel: Mapping[str, Any]) -> tuple[Any, ...]:
        counts: Counter[str] = Counter()
        for opcode, count in kernel.get("opcodes", {}).items():
            counts[class_of(opcode)] += count
        return *multiplications(counts), value_of(kernel["metrics"], "duration", 0.0)

    return max(kernels, key=rank)


def top_lines(kernel: Mapping[str, Any], count: int = 10) -> list[dict[str, Any]]:
    """The source lines with most stall samples: file, line, text, samples, percent of all, and the first reason.

    A line that the record has no text of, for it was compiled on another machine, has that of this project's file.
    Empty where the record was made before lines were kept, or without line information.
    """
    found = []
    for line in kernel.get("lines", ()):
        stalled = {reason: count for reason, count in line["samples"].items() if reason not in _NO_STALLS}
        if stalled:
            reason = max(sorted(stalled), key=lambda reason: stalled[reason])
            found.append({**line, "samples": sum(stalled.values()), "reason": reason})
    total = sum(line["samples"] for line in found)
    ranked = sorted(found, key=lambda line: -line["samples"])[:count]
    for line in ranked:
        if not line.get("text", "an instruction has none"):
            line["text"] = line_text(line["file"], line["line"])
    return [{**line, "percent": 100 * line["samples"] / total} for line in ranked]
