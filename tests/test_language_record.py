"""The record of what each language's compiler makes of an idea is of the present sources."""

import pytest
from conftest import a_rung, write
from ladder.config.sources import source_digest
from ladder.records import store
from record_languages import IDEAS, RECORD, all_rungs, languages, lines_of_code

RUNGS = all_rungs()


@pytest.mark.parametrize("name", [name for names in IDEAS.values() for name in names if name])
def test_every_rung_of_an_idea_is_recorded_from_its_present_source(name):
    build = store.read_json(RECORD)["builds"][name]
    again = "record it again: python tools languages compile, then make docs"
    assert build["source_digest"] == source_digest(RUNGS[name]), again
    assert build["lines"] == lines_of_code(RUNGS[name]), again


def test_rungs_of_an_idea_have_one_precision_and_the_page_shows_each():
    page = languages()
    for names in IDEAS.values():
        assert len({RUNGS[name].precision for name in names if name}) == 1
        assert all(f"`{name}`" in page for name in names if name)


@pytest.mark.parametrize(
    ("ending", "text", "lines"),
    [
        (".cu", '// words\n\n#include "gemm.cuh"\n/* more\n words */\nint a;  // an end\nint b[] = {\n  1,\n};\n', 5),
        (
            ".py",
            '"""Words.\n\nMore.\n"""\n\nimport ast  # why\n\n\ndef f(a,\n      b):\n    """Words."""\n    return a\n',
            4,
        ),
    ],
)
def test_lines_of_code_are_those_with_more_than_words(tmp_path, ending, text, lines):
    rung = a_rung("mine", source=str(write(tmp_path / f"mine{ending}", text)))
    assert lines_of_code(rung) == lines
