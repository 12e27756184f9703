# drawings: tiles, threads, banks and buffers of the tutorial's rungs.
with told():
    from ladder.show.drawings import constants_of, is_drawn

DRAWN = {rung.name: constants_of(rung) for rung in PLAN.rungs if is_drawn(rung)}
DRAWING_FILES = [f"{DERIVED}/drawings/{name}.svg" for name in DRAWN]

if DRAWN:

    rule drawings:
        """Tiles, threads, banks and buffers of each tutorial rung, drawn from its constants."""
        input:
            code=code("drawings"),
        output:
            DRAWING_FILES,
        log:
            f"{LOGS}/{GPU}/drawings.log",
        conda:
            CONDA
        params:
            constants=DRAWN,
        script:
            "../scripts/drawings.py"
