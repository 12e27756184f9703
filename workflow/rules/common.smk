# What every stage shares: the plan of this run, the names of rungs, and the files that the plan leads to.
import os
import sys
import time
from pathlib import Path

WORKFLOW = Path(workflow.current_basedir).parent
sys.path.insert(0, str(WORKFLOW))

from ladder.build.emulator import gxx_version
from ladder.build.languages.compile import state_of_compiler
from ladder.build.toolchain import find_nvcc, require_architecture
from ladder.commands.kinds import kinds, ONE_OF, run_each
from ladder.commands.session import (
    begin_alone,
    check_place,
    config_sources,
    forced,
    listing,
    MEASURING,
    offer_package,
    offer_targets,
    stages_to_stop_after,
    uses_conda,
)
from ladder.config.plan import plan, recorded_on
from ladder.config.sources import sources
from ladder.measure.hardware.stage import HARDWARE_PROBES
from ladder.model.survey import drawn_seed
from ladder.records.baseline import identity
from ladder.records.provenance import made_on
from ladder.records.store import digest_files
from ladder.system.code import code_files
from ladder.system.cublas import cublas_versions
from ladder.system.paths import require_room, shown
from ladder.system.terminal import say, told

ARGUMENTS = sys.argv[1:]
with told():
    offer_package()
    check_place(uses_conda(ARGUMENTS))
    PLACES = config_sources(config, ARGUMENTS)


configfile: "config/config.yaml"


config.setdefault("quiet", "GEMM_LADDER_QUIET" in os.environ)
config.setdefault("remeasure", False)
with told():
    if workflow.is_main_process and (named := kinds(config, PLACES)):
        sys.exit(run_each(config, named, ARGUMENTS))
    PLAN = plan(config, PLACES, not uses_conda(ARGUMENTS))
    if not uses_conda(ARGUMENTS):
        require_architecture(find_nvcc(PLAN.settings["compile"]["nvcc"]), PLAN.gpu)
    if workflow.is_main_process:
        if ONE_OF not in os.environ:
            begin_alone(Path("build"))
        print(f"gemm-ladder: {PLAN.headline}", file=sys.stderr, flush=True)


onstart:
    config["remeasure"] = config["remeasure"] or forced(ARGUMENTS)


# An input of what measures. Its time counts, so that Snakemake runs the stage again, only where that is asked for.
REMEASURE = "build/remeasure"
if workflow.is_main_process and (config["remeasure"] or not os.path.exists(REMEASURE)):
    Path(REMEASURE).write_text(
        str(time.time_ns())
    )  # of equal content Snakemake takes no notice
if not config["remeasure"]:
    REMEASURE = ancient(REMEASURE)

SETTINGS, SHAPES = PLAN.settings, [str(shape) for shape in PLAN.shapes]
CONDA = str(
    WORKFLOW.parent
    / f"envs/{'cuda12' if PLAN.gpu.cuda == '12' else 'gemm-ladder'}.yaml"
)
GPU = PLAN.gpu.name
# Of the records that ship, or of a device of the user's own: results/GPU, or results/GPU/devices/DEVICE.
RESULTS = shown(PLAN.results)
HOME = shown(PLAN.home())
RAW = f"{HOME}/raw"
RAW_OF = RAW.replace(
    f"{RESULTS}/{GPU}/", f"{RESULTS}/{{gpu}}/", 1
)  # as the rules that measure name it
DERIVED = f"{HOME}/{PLAN.folder}"
# What the pipeline makes again: in the project, or with the results that the user keeps elsewhere.
BESIDE = "" if RESULTS == "results" else f"{RESULTS}/"
BUILD, LOGS = f"{BESIDE}build", f"{BESIDE}logs"
with told():
    require_room(Path(LOGS))
RECORDED = recorded_on(Path(RAW))

# What is ready is begun in this order: what a GPU is free for, what the last steps of a run wait for, all else.
MEASURED_FIRST, AWAITED = 2, 1


wildcard_constraints:
    gpu=GPU,
    entry="[a-z][a-z0-9_]*",
    kernel="[a-z][a-z0-9_]*(@[A-Z][A-Z0-9_]*=[A-Za-z0-9_]+(,[A-Z][A-Z0-9_]*=[A-Za-z0-9_]+)*)?",


def code(script):
    """A rule's script and the files of workflow/ that it leads to: where one changes, its output is derived anew."""
    with told():
        files = code_files(WORKFLOW / "scripts" / f"{script}.py")
    return [os.path.relpath(file) for file in files]


def rung_of(wildcards):
    """The rung of a job as far as its library depends on it."""
    return [rung_named(wildcards.kernel).as_built]


def rung_named(name):
    """The rung that a file to be made names; ends a run that was asked for one of no rung."""
    with told():
        return PLAN.by_name(name)


def records(stage, ending, names):
    """The raw records of a stage: all that this run makes, or those that are there."""
    paths = [f"{RAW}/{stage}/{name}.{ending}" for name in names]
    return paths if PLAN.measuring else present(paths)


# Each job takes a GPU that no other job is on; no more jobs begin than there are GPUs, or than --resources gpu=N says.
if PLAN.devices and "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", len(PLAN.devices))
# A batch system gives jobs the GPU that their gres names; Snakemake need not count them.
GPUS_OF_A_JOB = min(1, len(PLAN.devices))
GPUS_OF_A_TIMING = len(PLAN.devices) if SETTINGS["exclusive"] else GPUS_OF_A_JOB

# An input of what measures: the devices and software of this run. Where one changes, the stages that measure run again.
MEASURED_ON = "build/measured_on"
if workflow.is_main_process and PLAN.measuring:
    software = {} if uses_conda(ARGUMENTS) else cublas_versions()
    devices = [
        made_on({"gpu": vars(device), "software": software}) for device in PLAN.devices
    ]
    devices = ", ".join(map(repr, devices)) or "nodes of a cluster"
    if not os.path.exists(MEASURED_ON) or Path(MEASURED_ON).read_text() != devices:
        Path(MEASURED_ON).write_text(devices)


# Each run writes it anew: an input whose time counts where the machine kept an earlier run from profiling.
THIS_RUN = "build/this_run"
if workflow.is_main_process:
    Path(THIS_RUN).write_text(str(time.time_ns()))


# Each run that measures draws a seed: all rungs that it surveys get the same products and data.
SURVEY_SEED = "build/survey_seed"
if workflow.is_main_process and PLAN.measuring:
    Path(SURVEY_SEED).write_text(str(drawn_seed(SETTINGS["survey"]["seed"])))


def undone(wildcards):
    """The file that a job leaves where the machine kept it from profiling a rung."""
    return f"{BUILD}/{GPU}/profile/{wildcards.kernel}/undone"


def once_more(wildcards):
    """What makes a rung be profiled again where an earlier run was kept from it."""
    return THIS_RUN if os.path.exists(undone(wildcards)) else ancient(THIS_RUN)


def present(paths):
    """Those of the paths where something is."""
    return [path for path in paths if os.path.exists(path)]


def table_files(names):
    """The derived tables of these names."""
    return [f"{DERIVED}/tables/{name}.csv" for name in names]


def figure_files(names, ending="svg"):
    """The derived figures of these names."""
    return [f"{DERIVED}/figures/{name}.{ending}" for name in names]


def derived_files():
    """Every file that this run derives: what else stands in their folder is of rungs that are gone."""
    outputs = {str(path) for each in workflow.rules for path in each.output}
    return sorted(path for path in outputs if path.startswith(f"{DERIVED}/"))


def own_records(wildcards):
    """The folders of the user's own records that stand beside those that ship: this run's, and those of all `gpus`."""
    found = [RAW] if PLAN.own else []
    for gpu in SETTINGS["gpus"]:
        found += sorted(map(str, Path(RESULTS).glob(f"{gpu}/devices/*/raw")))
    return list(dict.fromkeys(found))


def recorded_anywhere():
    """The check and time records of every GPU: those that are there, and those that this run makes."""
    found = {
        str(path)
        for stage, ending in (("check", "json"), ("time", "zip"))
        for place in ("*/raw", "*/devices/*/raw")
        for path in Path(RESULTS).glob(f"{place}/{stage}/*.{ending}")
    }
    made = records("check", "json", PLAN.checked) + records("time", "zip", RUNGS)
    return sorted(found | set(made))


def in_report(path, caption):
    """A table or figure that Snakemake's report shows, with this caption of workflow/report."""
    place, name = Path(path).relative_to(RESULTS).parts[0], Path(path).stem.replace(
        "_", " "
    )
    kind = "table" if path.endswith(".csv") else "figure"
    return report(
        path,
        caption=f"../report/{caption}.rst",
        category=f"{kind.capitalize()}s",
        labels={kind: name, "GPU": "all" if place == "across" else place},
    )


def refuse_to_measure(*stages):
    """No input; ends a run that measures nothing where one of these stages that measure is asked for."""

    def refuse(wildcards):
        asked = [stage for stage in MEASURING if stage in stages]
        if asked and not PLAN.measuring:
            sys.exit(
                f"gemm-ladder: {', '.join(asked)}: nothing is measured here; run where `nvidia-smi` lists a GPU, or "
                "leave it out to see what is recorded"
            )
        return []

    return refuse


def refuse_several_stages(wildcards):
    """No input; ends a run that is to stop after several stages, one of which may need another."""
    asked = stages_to_stop_after(ARGUMENTS)
    if len(asked) > 1:
        sys.exit(
            f"gemm-ladder: --until: {' '.join(asked)}: name one stage, the last; it makes all that it needs"
        )
    return []


def refuse_a_selection(wildcards):
    """No input; ends a run that is to keep the tables of some rungs or sizes as those of the whole ladder."""
    if PLAN.folder != "all":
        sys.exit(
            "gemm-ladder: evidence: it is of the whole ladder; leave out every setting but gpu and records"
        )
    if RESULTS != "results":
        sys.exit(
            "gemm-ladder: evidence: it is of our ladder and results; leave out ladder and results"
        )
    if PLAN.own:
        sys.exit(
            f"gemm-ladder: evidence: it is of the records that ship, not of those of {PLAN.own}; set records=shipped"
        )
    return []


def recorded():
    """On what and when the records that this run shows were measured: for the first page of Snakemake's report."""
    return RECORDED


def caption_of(wildcards):
    """The same for the captions of figures, once this run has measured."""
    return recorded_on(Path(RAW))


def has_measurements():
    """Whether there is or will be anything to draw."""
    return PLAN.measuring or any(Path(RAW).glob("time/*.zip"))


FIGURES = (
    ["gflops_by_size", "share_of_cublas", "speedup_over_naive"]
    if has_measurements()
    else []
)
PUBLISHED = ["published"] if FIGURES else []
ANALYSIS = (
    [
        "intensity",
        "roofline",
        "issue_slots",
        "instruction_mix",
        "occupancy_limits",
        "prediction",
        "predicted",
    ]
    if FIGURES
    else []
)
NEEDED = [rung.name for rung in PLAN.needed]
RUNGS = [rung.name for rung in PLAN.rungs]
CHECKED = [name for name in RUNGS if name in PLAN.checked]
PAGES = [rung for rung in PLAN.rungs if rung.role != "floor"]
LADDER = [rung.entry for rung in PLAN.ladder.values() if rung.role == "rung"]
