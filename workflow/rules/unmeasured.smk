# Without a GPU the stages that measure have nothing to run on, and whoever asks for one is told so.
if not PLAN.measuring:

    rule check:
        input:
            refuse_to_measure,

    rule time:
        input:
            refuse_to_measure,

    rule profile:
        input:
            refuse_to_measure,
