# hardware: what the GPU does at most, part by part; measured where it is asked for, read wherever it is recorded.
HARDWARE_RECORD = f"{RAW}/hardware.json"
HARDWARE = (
    [HARDWARE_RECORD]
    if PLAN.measuring and "hardware" in ARGUMENTS
    else present([HARDWARE_RECORD])
)
HARDWARE_TABLES = table_files(["hardware"]) if PLAN.measuring or HARDWARE else []


if PLAN.measuring:

    rule measure_hardware:
        """Every probe of kernels/floor/hardware.cu, in some seconds."""
        input:
            [shown(path) for path in sources(HARDWARE_PROBES)],
            remeasure=REMEASURE,
            measured_on=MEASURED_ON,
        output:
            update(HARDWARE_RECORD),
        log:
            f"{LOGS}/{GPU}/hardware.log",
        priority: MEASURED_FIRST
        conda:
            CONDA
        resources:
            gpu=GPUS_OF_A_TIMING,
            gres=PLAN.gpu.gres,
        params:
            gpu=GPU,
            devices=SETTINGS["devices"],
            exclusive=SETTINGS["exclusive"],
            target=PLAN.gpu.target,
            nvcc=SETTINGS["compile"]["nvcc"],
            flags=SETTINGS["compile"]["flags"],
            folder=f"{BUILD}/{GPU}/hardware",
        script:
            "../scripts/measure_hardware.py"


if HARDWARE_TABLES:

    rule hardware:
        """What does the GPU do at most? Latencies, bandwidths and rates of its parts, as a table."""
        input:
            record=HARDWARE_RECORD,
            code=code("hardware"),
        output:
            HARDWARE_TABLES,
        log:
            f"{LOGS}/{GPU}/hardware_table.log",
        priority: AWAITED
        conda:
            CONDA
        params:
            gpu=[PLAN.gpu],
        script:
            "../scripts/hardware.py"


# What a run that measures other things reads of it: nothing that it would have to measure.
HARDWARE_READ = table_files(["hardware"]) if HARDWARE else []
