# Without a GPU the stages that measure have nothing to run on, and whoever asks for one is told so.
if not PLAN.measuring:

    rule check:
        """Is it right? A verdict for each rung; needs a GPU."""
        input:
            refuse_to_measure("check"),

    rule time:
        """How fast is it? Needs a GPU."""
        input:
            refuse_to_measure("time"),

    rule sustained:
        """How fast is it without a pause, and what energy does it take? Needs a GPU."""
        input:
            refuse_to_measure("sustained"),

    rule profile:
        """Nsight Compute's metrics and advice for each rung; needs a GPU."""
        input:
            refuse_to_measure("profile"),


if not SURVEYED:

    rule survey:
        """Is it slower anywhere? Every rung beside cuBLAS on random shapes and data; needs a GPU."""
        input:
            refuse_to_measure("survey"),


if not HARDWARE_TABLES:

    rule hardware:
        """What does the GPU do at most? Latencies, bandwidths and rates of its parts; needs a GPU."""
        input:
            refuse_to_measure("hardware"),
