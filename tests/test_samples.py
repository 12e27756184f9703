"""From a number of the report to its samples."""

import pandas as pd
from conftest import a_timing, a_where, an_evidence
from ladder.show import samples
from ladder.tables.records import record_table, sample_table


def test_an_entry_has_the_file_its_address_the_key_the_origin_and_every_sample():
    item = an_evidence(
        "tiled@TILE=8", (a_timing("tiled@TILE=8", "512", {"tiled@TILE=8": [1.0, 2.5], "cublas": [0.5]}),)
    )
    found = samples.entries({"records": record_table([item]), "samples": sample_table([item])})
    check, time = found["tiled@TILE=8"]
    assert check["samples"] == []
    assert time["id"] == samples.target("time", "tiled@TILE=8", "512") == "time-tiled@TILE=8-512"
    assert (time["file"], time["address"]) == ("raw/time/tiled@TILE=8.zip", "../raw/time/tiled%40TILE%3D8.zip")
    assert time["origin"] == f"GPU-0, cuBLAS not recorded, commit {'0' * 12}, {a_where()['measured_at'][:10]}"
    assert [(kernel, times) for kernel, _, times in time["samples"]] == [("tiled@TILE=8", "1 2.5"), ("cublas", "0.5")]


def test_the_times_of_a_page_lead_to_their_samples_and_its_files_are_found_from_the_report():
    row = "<tr>\n<td>512</td>\n<td>0.5</td>\n</tr>"
    table = f'<a href="../../raw/time/a.zip">a</a><table>{row}</table>'
    page = f"<h2>Other</h2>{row}<h2>Benchmark</h2>{table}<h2>More</h2>{row}"
    found = samples.with_links(page, "a")
    assert found.count('<a href="#time-a-512">0.5</a>') == 1
    assert '<a href="../raw/time/a.zip">' in found


def test_sentences_name_the_size_whose_samples_they_lead_to():
    rungs = pd.DataFrame({"rung": ["fast", "fast@A=1", "naive"]})
    lines = ["fast@A=1 is the best at 8192: 5 TFLOP/s, 9 times naive.", "breakfast is no rung"]
    assert samples.mentioned(lines, rungs, "4096") == [
        samples.link("fast@A=1 at 8192", "time-fast@A=1-8192"),
        samples.link("naive at 4096", "time-naive-4096"),
    ]
