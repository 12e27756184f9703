# drawings: tiles, threads, banks and buffers of the tutorial's rungs.
from ladder.show.drawings import constants_of, is_drawn

DRAWN = {rung.name: constants_of(rung) for rung in PLAN.rungs if is_drawn(rung)}
DRAWINGS = list(DRAWN)

if DRAWINGS:

    rule drawings:
        """Tiles, threads, banks and buffers of each tutorial rung, drawn from its constants."""
        input:
            code=code("drawings"),
        output:
            expand("results/{{gpu}}/drawings/{name}.svg", name=DRAWINGS),
        log:
            "logs/{gpu}/drawings.log",
        conda:
            CONDA
        params:
            constants=DRAWN,
        script:
            "../scripts/drawings.py"
