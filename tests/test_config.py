"""The configuration: shapes, schemas, the ladder, the selection; the GPU files and the plan that follows from them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from conftest import KERNELS, REPOSITORY, a_check, a_device, asked, line_of, time_run, write
from ladder.build.compile import build
from ladder.build.toolchain import find_nvcc
from ladder.commands import session
from ladder.commands.session import check_arguments
from ladder.config import gpus, plan
from ladder.config.documents import dotted, leaves, read_shapes, read_yaml, schema, set_by, validated
from ladder.config.kernels import read_kernels, select_rungs
from ladder.config.sources import source_digest
from ladder.config.tuned_file import Tuned, tuned_text
from ladder.model.cases import BEYOND_31_BITS, GPU_ALONE, OF_WHOLE_TILES, PROBES, WIDE, Case, probes
from ladder.model.drawn import most_elements
from ladder.model.rung import parse_variant, variant_name
from ladder.model.shape import Shape
from ladder.records import store
from ladder.system import nvml
from ladder.system.errors import LadderError


def description(name: str, *path: str) -> str:
    """The description in a schema, which is the remedy in messages, of a key; `[]` stands for a list's items."""
    rules = schema(name)
    for part in path:
        rules = rules["items"] if part == "[]" else rules["properties"][part]
    return rules["description"].strip().rstrip(".")


# Shapes


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("1024", (1024, 1024, 1024)),
        (7, (7, 7, 7)),
        ("31x33x0", (31, 33, 0)),
        ("1x300x129", (1, 300, 129)),
        ("0", (0, 0, 0)),
    ],
)
def test_a_shape_is_read_from_n_or_mxnxk(text, shape):
    assert Shape.parse(text) == Shape(*shape)


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "1.0", "1x2", "1x2x3x4", "1xx3", "1X2X3", " 1", "1 ", "1\n", "٣", "1e3", True, None, 1.0, "0x10"],
)
def test_what_is_no_shape_is_refused_by_its_text(text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Shape.parse(text)
    assert str(caught.value) == f"{text!r} is neither a positive integer nor MxNxK"


@pytest.mark.parametrize(("shape", "text"), [((5, 5, 5), "5"), ((5, 5, 6), "5x5x6"), ((6, 5, 5), "6x5x5")])
def test_a_shape_prints_as_it_is_read(shape, text):
    assert str(Shape(*shape)) == text
    assert Shape.parse(text) == Shape(*shape)


def test_a_product_is_two_operations_a_term():
    assert Shape(3, 5, 7).flop == 2 * 3 * 5 * 7


def test_shapes_keep_their_order_and_lose_repetitions():
    assert read_shapes([256, "128", "256x256x256", 128], "F", "sizes") == [Shape(256, 256, 256), Shape(128, 128, 128)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([128, 0], "F: sizes[1]: 0 is not a positive integer; write 1 or more"),
        (["128x0x128"], "F: sizes[0]: 128x0x128 is not a positive integer; write 1 or more"),
        ([-4], "F: sizes[0]: -4 is neither a positive integer nor MxNxK; write 1024 or 512x1024x2048"),
        (["foo"], "F: sizes[0]: 'foo' is neither a positive integer nor MxNxK; write 1024 or 512x1024x2048"),
    ],
)
def test_a_size_that_is_none_is_named_with_its_place_and_a_remedy(values, message):
    assert line_of(read_shapes, values, "F", "sizes") == message


# The schemas' errors


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kernel": "all"}, "F: kernel: unknown key; did you mean kernels?"),
        ({"timing": {"itertions": 5}}, "F: timing.itertions: unknown key; did you mean iterations?"),
        (
            {"check": {"cases": [{}, {"gamma": 1}]}},
            "F: check.cases[1].gamma: unknown key; known keys: alpha, beta, offset, padding",
        ),
    ],
)
def test_an_unknown_key_is_named_beside_the_nearest_known_one(document, message):
    assert line_of(validated, document, "config", "F") == message


def test_an_unknown_key_without_a_near_one_lists_the_known_ones():
    message = line_of(validated, {"zzz": 1}, "config", "F")
    assert message == f"F: zzz: unknown key; known keys: {', '.join(sorted(schema('config')['properties']))}"


@pytest.mark.parametrize(
    ("document", "problem", "remedy"),
    [
        ({"sizes": 0}, "sizes: 0 is less than 1", ["sizes"]),
        ({"sizes": [128, 0]}, "sizes[1]: 0 is less than 1", ["sizes", "[]"]),
        ({"sizes": [-4]}, "sizes[0]: -4 is less than 1", ["sizes", "[]"]),
        ({"sizes": [1.5]}, "sizes[0]: 1.5 is not of type ['integer', 'string']", ["sizes", "[]"]),
        ({"sizes": []}, "sizes: [] has too few entries", ["sizes"]),
        ({"sizes": {"n": 1}}, "sizes: {'n': 1} is not of type ['string', 'integer', 'array']", ["sizes"]),
        ({"kernels": []}, "kernels: [] has too few entries", ["kernels"]),
        ({"kernels": [3]}, "kernels[0]: 3 is not of type string", ["kernels", "[]"]),
        ({"gpu": "H 100"}, "gpu: 'H 100' is not valid", ["gpu"]),
        ({"gpu": "../h100"}, "gpu: '../h100' is not valid", ["gpu"]),
        ({"measure": "yes"}, "measure: 'yes' is none of ['auto', True, False, 'cluster']", ["measure"]),
        ({"devices": -1}, "devices: -1 is less than 0", ["devices"]),
        ({"devices": 0.5}, "devices: 0.5 is not of type ['string', 'integer', 'array']", ["devices"]),
        ({"timing": 5}, "timing: 5 is not of type object", ["timing"]),
        ({"timing": "{iterations: foo}"}, "timing: '{iterations: foo}' is not of type object", ["timing"]),
        (
            {"timing": {"iterations": "foo"}},
            "timing.iterations: 'foo' is not of type integer",
            ["timing", "iterations"],
        ),
        ({"timing": {"iterations": 0}}, "timing.iterations: 0 is less than 1", ["timing", "iterations"]),
        ({"timing": {"iterations": 1.5}}, "timing.iterations: 1.5 is not of type integer", ["timing", "iterations"]),
        ({"timing": {"warmup": -1}}, "timing.warmup: -1 is less than 0", ["timing", "warmup"]),
        ({"timing": {"budget_s": 0}}, "timing.budget_s: 0 is not greater than 0", ["timing", "budget_s"]),
        (
            {"check": {"cases": [{"alpha": "x"}]}},
            "check.cases[0].alpha: 'x' is not of type number",
            ["check", "cases", "[]", "alpha"],
        ),
        (
            {"check": {"cases": [{"padding": -1}]}},
            "check.cases[0].padding: -1 is less than 0",
            ["check", "cases", "[]", "padding"],
        ),
        ({"profile": {"enabled": "nope"}}, "profile.enabled: 'nope' is not of type boolean", ["profile", "enabled"]),
        ({"profile": {"sizes": [0]}}, "profile.sizes[0]: 0 is less than 1", ["profile", "sizes", "[]"]),
        ({"compile": {"flags": "-O3"}}, "compile.flags: '-O3' is not of type array", ["compile", "flags"]),
    ],
)
def test_a_value_that_breaks_the_schema_is_named_with_file_key_and_remedy(document, problem, remedy):
    message = line_of(validated, document, "config", "config/config.yaml")
    assert message == f"config/config.yaml: {problem}; it should be: {description('config', *remedy)}"


def test_a_value_that_came_from_the_command_line_is_said_to_be_from_there():
    sources = {"sizes": "--config"}
    assert line_of(validated, {"sizes": 0}, "config", "F", sources).startswith("--config: sizes: 0 is less than 1;")
    assert line_of(validated, {"devices": -1}, "config", "F", sources).startswith("F: devices: -1 is less than 0;")


def test_a_mapping_in_the_place_of_a_value_is_said_to_be_from_where_it_is_from():
    sources = {"kernels.naive": "--config", "timing.warmup": "--config"}
    message = line_of(validated, {"kernels": {"naive": 1}}, "config", "F", sources)
    assert message.startswith("--config: kernels: {'naive': 1} is not of type ")


def every_key(rules: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each key of a schema."""
    for key, rule in rules.get("properties", {}).items():
        yield (*path, key)
        yield from every_key(rule, (*path, key))


def answer(document: Any, name: str) -> str:
    """What a LadderError says of a document; empty where it is taken."""
    try:
        validated(document, name, "F")
    except LadderError as error:
        return str(error)
    return ""


# Text that YAML reads and Python does not, a number beyond every type, values that fill screens.
@pytest.mark.parametrize(
    "value", ["2" * 5000, "2026-99-99", "x" * 5000, "a b " * 2000, {"k" * 5000: 1}, [[1]] * 500, 1e308, 10**400]
)
@pytest.mark.parametrize("name", ["config", "gpu"])
def test_whatever_a_key_is_given_the_answer_is_one_line_that_fits_a_screen(name, value):
    for path in every_key(schema(name)):
        document = value
        for key in reversed(path):
            document = {key: document}
        message = answer(document, name)
        assert not message or message.startswith("F: ")
        assert len(message.splitlines()) < 2
        assert len(message) < 1500


def test_a_whole_number_may_be_written_with_a_decimal_point():
    made = validated({"sizes": [1024.0], "timing": {"iterations": 50.0}, "default_sizes": ["512"]}, "config", "F")
    assert (made["sizes"], made["timing"]["iterations"]) == ([1024], 50)
    assert type(made["sizes"][0]) is int


@pytest.mark.parametrize("document", [5, "text", [1]])
def test_a_document_that_is_no_mapping_is_one_line(document):
    assert line_of(validated, document, "config", "F").startswith(
        f"F: (top level): {document!r} is not of type object;"
    )


@pytest.mark.parametrize(
    ("document", "path", "value"),
    [
        ({"remeasure": "true"}, ["remeasure"], True),
        ({"timing": {"iterations": "7"}}, ["timing", "iterations"], 7),
        ({"timing": {"budget_s": "0.5"}}, ["timing", "budget_s"], 0.5),
        ({"profile": {"enabled": "false"}}, ["profile", "enabled"], False),
        ({"profile": {"sizes": "[512, 1x2x3]"}}, ["profile", "sizes"], [512, "1x2x3"]),
        ({"check": {"cases": [{"alpha": "-1.25"}]}}, ["check", "cases", 0, "alpha"], -1.25),
        ({"kernels": ["7"]}, ["kernels", 0], "7"),
        ({"sizes": ["128", "1x2x3"]}, ["sizes"], ["128", "1x2x3"]),
    ],
)
def test_text_becomes_the_number_or_truth_value_that_the_schema_wants(document, path, value):
    found = validated(document, "config", "F")
    for part in path:
        found = found[part]
    assert found == value
    assert type(found) is type(value)


def test_an_empty_configuration_gets_every_default():
    found = validated(None, "config", "F")
    assert {key: found[key] for key in ("gpu", "measure", "devices", "kernels", "sizes")} == {
        "gpu": "auto",
        "measure": "auto",
        "devices": "all",
        "kernels": "all",
        "sizes": "gpu",
    }
    assert (found["timing"]["warmup"], found["timing"]["iterations"]) == (5, 50)
    assert found["compile"]["flags"] == ["-O3", "-std=c++17", "-lineinfo"]
    assert set(found) == set(schema("config")["properties"])


def test_defaults_are_filled_beside_what_is_given_and_are_never_shared():
    first = validated({"timing": {"iterations": 3}}, "config", "F")
    assert (first["timing"]["iterations"], first["timing"]["warmup"]) == (3, 5)
    first["default_sizes"].append(1)
    assert 1 not in validated({}, "config", "F")["default_sizes"]


def test_the_projects_own_configuration_is_valid():
    path = REPOSITORY / "config/config.yaml"
    assert validated(read_yaml(path), "config", "config/config.yaml")["timing"]["iterations"] == 50


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("check", "shapes", 3), "check.shapes[3]"),
        (("timing",), "timing"),
        ((), "(top level)"),
        (("a", 0, "b"), "a[0].b"),
    ],
)
def test_a_path_into_a_document_is_written_as_a_reader_would(path, text):
    assert dotted(path) == text


def test_a_file_that_is_not_yaml_is_named_with_its_line(project):
    path = write(project / "config/broken.yaml", "a: 1\nb: [1,\nc: }\n")
    message = line_of(read_yaml, path)
    assert message.startswith("config/broken.yaml: line 3: is not YAML: ")


def test_a_missing_file_is_named(project):
    assert line_of(read_yaml, project / "config/none.yaml") == (
        "config/none.yaml: there is no such file; make it, or mend the name"
    )


# The ladder


def ladder_with(project: Path, **entries) -> Path:
    """The project's kernels.yaml with entries changed or added."""
    return write(project / "config/kernels.yaml", json.dumps(KERNELS | entries))


def entry(**changes) -> dict:
    return {"title": "a title", "source": "naive.cu"} | changes


def test_the_ladder_has_every_variant_in_the_order_of_the_file(project):
    ladder = read_kernels(project / "config/kernels.yaml")
    assert list(ladder) == ["empty", "cublas", "naive", "coalesced", "tiled@TILE=8", "tiled@TILE=16"]
    tiled = ladder["tiled@TILE=8"]
    assert (tiled.entry, tiled.macros, tiled.before, tiled.role) == ("tiled", {"TILE": "8"}, "coalesced", "rung")
    assert (tiled.precision, tiled.compute_capability) == ("fp32", "5.0")


def test_the_projects_own_ladder_is_valid_and_has_a_baseline_for_each_class_of_bounds():
    ladder = read_kernels(REPOSITORY / "config/kernels.yaml")
    baselines = {rung.name: rung.precision for rung in ladder.values() if rung.role == "baseline"}
    assert baselines == {"cublas": "fp32", "cublas_best": "fp32", "cublas_tf32": "tf32"}
    assert ladder["tf32"].baselines == ("cublas_tf32",)
    assert next(rung.name for rung in ladder.values() if rung.role == "rung") == "naive"


@pytest.mark.parametrize(("capability", "runs"), [("8.9", False), ("9.0", True), ("10.0", False), ("12.0", False)])
def test_a_rung_may_need_instructions_that_later_gpus_have_no_more(project, capability, runs):
    text = (project / "config/kernels.yaml").read_text()
    entries = json.loads(text) | {"late": entry(compute_capability="9.0", newest_compute_capability="9.0")}
    (project / "config/kernels.yaml").write_text(json.dumps(entries))
    ladder = read_kernels(project / "config/kernels.yaml")
    assert ladder["late"].runs_on(capability) == runs
    assert ladder["naive"].runs_on(capability)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"lost": entry(source="sgemm/lost.cu")},
            "lost.source: kernels/sgemm/lost.cu: there is no such file; make it, or mend the name",
        ),
        ({"late": entry(before="coalescd")}, "late.before: 'coalescd' is no rung; did you mean coalesced?"),
        ({"late": entry(before="tiled@TILE=9")}, "late.before: 'tiled@TILE=9' is no rung; did you mean tiled@TILE=8?"),
        ({"late": {"title": "no source"}}, "late: 'source' is a required property; add it"),
        ({"late": entry(sourc="x")}, "late.sourc: unknown key; did you mean source?"),
        (
            {"late": entry(role="rug")},
            "late.role: 'rug' is none of ['rung', 'baseline', 'floor']; it should be: "
            + schema("kernels")["additionalProperties"]["properties"]["role"]["description"],
        ),
        (
            {"late": entry(source="../naive.cu")},
            "late.source: '../naive.cu' is not valid; it should be: "
            + schema("kernels")["additionalProperties"]["properties"]["source"]["description"],
        ),
        (
            {"late": entry(variants=[{"tile": 8}])},
            "late.variants[0]: 'tile' is not valid; it should be: capital letters, digits and underscores",
        ),
        (
            {"late": entry(variants=[{"TILE": "8 -o x"}])},
            "late.variants[0].TILE: '8 -o x' is not of type integer; it should be: a whole number",
        ),
        (
            {"late": entry(compute_capability="90")},
            "late.compute_capability: '90' is not valid; it should be: the lowest compute "
            'capability that the rung runs on, such as "8.0"',
        ),
    ],
)
def test_an_entry_of_the_ladder_that_cannot_be_is_one_line_with_a_remedy(project, entries, message):
    path = ladder_with(project, **entries)
    assert line_of(read_kernels, path) == f"config/kernels.yaml: {message}"


@pytest.mark.parametrize(
    "name", ["a/b", "../x", "a b", "a;b", "$(a)", "`a`", "a'b", "A", "1a", "a-b", "a@B=1", "", "all"]
)
def test_an_entry_may_not_be_named_with_what_a_path_or_a_shell_reads(project, name):
    message = line_of(read_kernels, ladder_with(project, **{name: entry()}))
    assert message == (
        f"config/kernels.yaml: (top level): {name!r} is not valid; "
        f"it should be: {schema('kernels')['propertyNames']['description']}"
    )


def test_an_empty_ladder_is_refused(project):
    assert line_of(read_kernels, write(project / "config/kernels.yaml", "{}")).startswith(
        "config/kernels.yaml: (top level): {} "
    )


@pytest.mark.parametrize(
    ("entries", "place", "named"),
    [
        ({"late": entry(before="late")}, "late.before", "late -> late"),
        ({"late": entry(before="b"), "b": entry(before="late")}, "late.before", "late -> b -> late"),
        ({"late": entry(variants=[{"X": 1}, {"X": 2}], before="late@X=2")}, "late.before", "late@X=2 -> late@X=2"),
        ({"late": entry(before="empty")}, "late.before", "floor"),
        ({"late": entry(variants=[{"X": 1, "Y": 2}, {"Y": 2, "X": 1}])}, "late.variants[1]", "variants[0]"),
        ({"late": entry(source="tiled.cu", variants=[{"X": 1}, {"X": 1, "TILE": 16}])}, "late.variants[1]", "equals"),
        (
            {"late": entry(compute_capability="9.0", newest_compute_capability="8.0")},
            "late.newest_compute_capability",
            "8.0",
        ),
        ({"late": entry(tune={"parameters": {"TLE": [1]}})}, "late.tune", "TLE"),
    ],
)
def test_a_ladder_that_contradicts_itself_is_one_line_that_names_the_key(project, entries, place, named):
    write(project / "kernels/tiled.cu", "#ifndef TILE\n#define TILE 16\n#endif\n")
    message = line_of(read_kernels, ladder_with(project, **entries))
    assert message.startswith(f"config/kernels.yaml: {place}: ")
    assert named in message


NAMES_OF_THE_PIPELINE = ["inspect", "emulated", "emulator", "trials", "profile", "tables", "kernel", "gpu", "summary"]


@pytest.mark.parametrize("name", NAMES_OF_THE_PIPELINE)
def test_a_rung_may_have_the_name_of_a_rule_a_folder_or_a_wildcard(project, name):
    assert name in read_kernels(ladder_with(project, **{name: entry()}))


# Files that cannot be read


def spoilt(path: Path, how: str) -> None:
    """Make of a file what cannot be read as one."""
    path.unlink(missing_ok=True)
    if how == "folder":
        path.mkdir()
    elif how == "broken link":
        path.symlink_to("nowhere")
    elif how == "circle of links":
        path.symlink_to(path.name)
    elif how == "not UTF-8":
        path.write_bytes(b"// first\n// \xe9t\xe9\n")
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "device":
        path.symlink_to("/dev/zero")


SPOILT = ["missing", "folder", "broken link", "circle of links", "not UTF-8", "pipe", "device"]


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("name", ["config/kernels.yaml", "kernels/naive.cu", "kernels/include/part.cuh"])
def test_a_file_that_cannot_be_read_is_one_line_that_names_it(project, how, name):
    write(project / "kernels/include/part.cuh", "")
    write(project / "kernels/naive.cu", '#include "part.cuh"\n')
    spoilt(project / name, how)
    if name.endswith(".cuh") and how != "not UTF-8":
        return  # as good as not there: the compiler looks for it elsewhere, and says so
    message = line_of(read_kernels, project / "config/kernels.yaml")
    assert f"{name}: " in message
    assert ("line 2" in message) == (how == "not UTF-8")


def test_a_file_that_this_user_may_not_read_is_one_line(project, monkeypatch):
    def denied(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert line_of(read_kernels, project / "config/kernels.yaml").startswith("config/kernels.yaml: you may not read")


# YAML


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", 3),
        ("a:\n  b: {c: 1, c: 2}\n", 2),
        ('"1": a\n1: b\n', 2),
        ("a: 1\n\tb: 2\n", 2),
        ("a: [1,\n", 2),
        ("a: 'b\n", 2),
        ("a: *b\n", 1),
        ("[1]: 2\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: !!python/object:os.system x\n", 1),
    ],
)
def test_yaml_that_is_wrong_or_says_a_thing_twice_is_named_with_its_line(project, text, line):
    path = write(project / "config/kernels.yaml", text)
    assert line_of(read_yaml, path).startswith(f"config/kernels.yaml: line {line}: ")


@pytest.mark.parametrize("text", ["a: 2026-99-99\n", "a: \0\n"])
def test_yaml_that_is_wrong_without_a_line_is_one_line(project, text):
    assert line_of(read_yaml, write(project / "config/kernels.yaml", text)).startswith("config/kernels.yaml: ")


def test_keys_that_are_merged_are_not_given_twice(project):
    path = write(project / "config/some.yaml", "a: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}\n")
    assert read_yaml(path)["d"] == {"b": 3, "c": 2}


def test_a_value_that_contains_itself_is_one_line(project):
    document = read_yaml(write(project / "config/some.yaml", "kernels: &a [*a]\n"))
    assert line_of(validated, document, "config", "F").startswith("F: ")


# The command line


@pytest.fixture
def folder(project, monkeypatch):
    """The project as the current folder, with the package's own schemas."""
    monkeypatch.chdir(project)
    return project


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--config", "a.b=1"], "a.b: unknown key"),
        (["-C", "timing.iterations=5"], "timing='{iterations: 5}'"),
        (["--config", "gpu=t4", "tables"], "snakemake tables"),
        (["--config", "kernel=all"], "did you mean kernels?"),
        (["--config", "=1"], "'=1'"),
        (["--config", "x=1"], "x: unknown key"),
        (["--config", "timing={iterations: 5, iterations: 6}"], "timing: line 1: "),
        (["--config", "sizes=[512"], "sizes: line "),
        (["--config", "gpu=t4", "--config", "sizes=512"], "2 times"),
        (["--configfile", "none.yaml"], "none.yaml: there is no such file"),
        (["--configfile", "config"], "config: is a folder"),
        (["--configfile", "twice.yaml"], "twice.yaml: line 2: "),
        (["--configfile", "list.yaml"], "list.yaml: holds no mapping"),
        (["--configfile", "empty.yaml"], "empty.yaml: holds no mapping"),
        (["--directory", "config"], "--directory: "),
        (["-d", "/"], "--directory: /"),
    ],
)
def test_a_command_line_that_snakemake_cannot_take_is_one_line(folder, arguments, named):
    for name, text in {"twice": "a: 1\na: 2\n", "list": "- 1\n", "empty": "# nothing\n"}.items():
        write(folder / f"{name}.yaml", text)
    assert named in line_of(check_arguments, ["-n", "--cores", "2", *arguments])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--cores", "2", "tables", "--config", "gpu=t4", "sizes=[512,1x2x3]", "timing={iterations: 5}"],
        ["--config", "baseline=@{upstream}", "fail_on=slower", "--", "compare"],
        ["--configfile", "good.yaml", "--directory", "."],
        ["--set-threads", "emulate=2", "--config"],
    ],
)
def test_a_command_line_that_snakemake_takes_is_passed(folder, arguments):
    write(folder / "good.yaml", "gpu: t4\n")
    check_arguments(arguments)


@pytest.mark.parametrize(
    ("arguments", "is_forced"),
    [
        (["-F"], True),
        (["-nF", "tables"], True),
        (["--forceall", "--until", "time"], True),
        (["-n", "-R", "time", "tables"], True),
        (["--forcerun", "tables"], False),
        (["-R"], False),
        (["--config", "baseline=-F"], False),
        (["tables", "-n", "--until", "time"], False),
    ],
)
def test_what_is_measured_anew_is_what_the_command_line_forces(arguments, is_forced):
    assert session.forced(arguments) is is_forced


@pytest.mark.parametrize("option", ["--sdm", "--software-deployment-method", "--deployment-method", "--deployment"])
def test_conda_is_seen_by_each_name_of_its_option(option):
    assert session.uses_conda([option, "conda", "apptainer", "--cores", "2"])
    assert session.uses_conda(["--use-conda"])
    assert not session.uses_conda([option, "apptainer", "--cores", "2", "conda"])


def test_stages_to_stop_after_are_those_of_until():
    assert session.stages_to_stop_after(["all", "--until", "time", "check", "--cores", "2"]) == ["check", "time"]
    assert session.stages_to_stop_after(["time"]) == []


def test_what_is_given_beside_the_configuration_is_known_by_its_place(folder):
    write(folder / "mine.yaml", "sizes: [1]\ngpu: t4\ntiming: {iterations: 5}\n")
    config = {"sizes": [2], "gpu": "t4", "timing": {"iterations": 5}, "of_a_profile": 1}
    found = session.config_sources(config, ["--configfile", "mine.yaml", "--config", "sizes=[2]"])
    assert (found["gpu"], found["timing.iterations"]) == ("mine.yaml", "mine.yaml")
    assert set(found[key] for key in found if key.startswith("sizes")) == {"--config"}
    assert found["of_a_profile"] == "--config"


def test_a_profile_that_gives_a_key_twice_is_named_with_its_line(folder):
    write(folder / "profiles/default/config.yaml", "cores: all\nquiet: rules\ncores: 2\n")
    assert line_of(check_arguments, []).startswith("profiles/default/config.yaml: line 3: ")


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("compile.nvcc", "--config"),
        ("compile.flags", "F"),
        ("check.cases[0].alpha", "--config"),
        ("check", "F"),
        ("sizes[3]", "mine.yaml"),
    ],
)
def test_a_message_names_the_place_that_gave_the_key_and_not_another_of_its_section(key, place):
    given = dict.fromkeys(leaves({"compile": {"nvcc": "x"}, "check": {"cases": [{"alpha": "x"}]}}), "--config")
    assert set_by({**given, "sizes": "mine.yaml"}, key, "F") == place


# The selection


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("all", ["empty", "cublas", "naive", "coalesced", "tiled@TILE=8", "tiled@TILE=16"]),
        ("naive", ["naive"]),
        ("tiled", ["tiled@TILE=8", "tiled@TILE=16"]),
        (["tiled", "naive", "cublas"], ["cublas", "naive", "tiled@TILE=8", "tiled@TILE=16"]),
        (["tiled@TILE=16"], ["tiled@TILE=16"]),
        (["tiled@TILE=24", "tiled"], ["tiled@TILE=24", "tiled@TILE=8", "tiled@TILE=16"]),
        (["coalesced@X=1", "naive"], ["naive", "coalesced@X=1"]),
        (["tiled@A=1,B=2", "tiled@B=2,A=1"], ["tiled@A=1,B=2"]),
        (["naive", "naive"], ["naive"]),
    ],
)
def test_the_selection_stands_in_the_ladders_order(project, wanted, names):
    ladder = read_kernels(project / "config/kernels.yaml")
    assert [rung.name for rung in select_rungs(wanted, ladder, "F")] == names


def test_the_ladder_as_published_has_every_kernel_of_the_worklogs_with_its_tiles_and_passes_their_asserts(tmp_path):
    ladder = read_kernels(plan.KERNELS)
    found = {rung.name: rung for rung in select_rungs("published", ladder, "F")}
    assert {"naive", "coalesced@BM=32,BN=32", "tiled@TILE=16", "tiled@TILE=32", "cublas"} <= found.keys()
    assert {"tiled_1d@BM=64,BN=64,BK=8,TM=8", "tiled_2d@BM=128,BN=128,BK=8,TM=8,TN=8"} <= found.keys()
    assert "conflict_free@LAYOUT=1,BM=128,BN=128,BK=32,TM=8,TN=8" in found
    assert not {"fastest", "tma", "async_copy"} & found.keys()
    new = [rung for name, rung in found.items() if name not in ladder]
    assert len(new) == 6
    target = gpus.read_gpu("h100-sxm").target
    for rung in new:
        record = build(rung, target, find_nvcc(), ["-O3", "-std=c++17"], tmp_path / rung.entry)
        assert record["status"] == "ok", record["message"]


@pytest.mark.parametrize("stage", ["check/{}.json", "time/{}.zip", "profile/{}.json.gz"])
def test_the_whole_ladder_has_the_recorded_variants_with_published_tiles_after_their_entrys_own(tmp_path, stage):
    """So that tables, pages and `evidence` show what `kernels=published` has recorded."""
    asked = {"gpu": "h100-sxm", "measure": False, "results": str(tmp_path)}
    recorded = "vectorized@BM=128,BN=128,BK=8,TM=8,TN=8"
    before = plan.plan(asked)
    for name in (recorded, "vectorized@BM=64,BN=64,BK=8,TM=8,TN=8"):  # no publication has the tiles of the second
        write(tmp_path / "h100-sxm/raw" / stage.format(name), "{}")
    found = plan.plan(asked)
    names = [rung.name for rung in found.rungs]
    names_before = [rung.name for rung in before.rungs]
    assert names == [*names_before[: (at := names_before.index("vectorized") + 1)], recorded, *names_before[at:]]
    assert found.folder == before.folder == "all"
    assert found.by_name(recorded).before == "tiled_2d"
    assert found.side_by_side(recorded)[0] == recorded
    alone = plan.plan({**asked, "kernels": ["vectorized"]})
    assert [rung.name for rung in alone.rungs] == ["vectorized"]


def test_a_variant_of_the_users_own_is_its_entry_with_other_macros(project):
    ladder = read_kernels(project / "config/kernels.yaml")
    (rung,) = select_rungs(["tiled@TILE=24,WIDE=1"], ladder, "F")
    listed = ladder["tiled@TILE=8"]
    assert rung.macros == {"TILE": "24", "WIDE": "1"}
    assert (rung.source, rung.before, rung.entry, rung.title) == (
        listed.source,
        listed.before,
        listed.entry,
        listed.title,
    )


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", "a;b", "$(a)", "`a`", "tiled@", "tiled@TILE", "tiled@TILE=;a"])
def test_a_selected_name_with_what_a_path_or_a_shell_reads_is_refused(project, name):
    ladder = read_kernels(project / "config/kernels.yaml")
    hint = "did you mean tiled@TILE=8?" if name.startswith("tiled@") else f"known: {', '.join(ladder)}"
    assert line_of(select_rungs, ["naive", name], ladder, "--config") == (
        f"--config: kernels[1]: {name!r} is neither a kernel's name nor NAME@MACRO=VALUE,MACRO=VALUE; {hint}"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nave", "F: kernels[0]: 'nave' is no kernel; did you mean naive?"),
        ("tilde", "F: kernels[0]: 'tilde' is no kernel; did you mean tiled@TILE=8?"),
        (
            "zzz",
            "F: kernels[0]: 'zzz' is no kernel; known: empty, cublas, naive, coalesced, tiled@TILE=8, tiled@TILE=16",
        ),
    ],
)
def test_a_selected_name_that_is_no_kernel_is_answered_with_the_nearest(project, name, message):
    ladder = read_kernels(project / "config/kernels.yaml")
    assert line_of(select_rungs, [name], ladder, "F") == message


@pytest.mark.parametrize(("entry", "macros"), [("tiled", {"TILE": "8", "X": "1"}), ("naive", {})])
def test_a_variants_name_is_read_as_it_is_written(entry, macros):
    assert parse_variant(variant_name(entry, macros)) == (entry, macros)


# GPU files


@pytest.fixture
def gpu_files(project, monkeypatch):
    """The folder of GPU files of the project: those of the checkout, to be added to."""
    folder = project / "config/gpus"
    folder.mkdir()
    for path in gpus.GPU_FILES.glob("*.yaml"):
        write(folder / path.name, path.read_text())
    monkeypatch.setattr(gpus, "GPU_FILES", folder)
    return folder


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA RTX 4000 SFF Ada Generation", "rtx-4000-sff-ada-generation"),
        ("Tesla P100-PCIE-16GB", "p100-pcie-16gb"),
        ("NVIDIA GeForce GTX 1080 Ti", "gtx-1080-ti"),
        ("Quadro RTX 6000", "rtx-6000"),
        ("NVIDIA", "gpu"),
        ("../$(x) ;y", "x-y"),
    ],
)
def test_a_gpus_name_becomes_a_files_name(name, slug):
    assert gpus.slug(name) == slug


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [("7.0", "sm_70"), ("7.5", "sm_75"), ("8.9", "sm_89"), ("9.0", "sm_90a"), ("10.0", "sm_100a"), ("12.0", "sm_120a")],
)
def test_the_architecture_follows_from_the_compute_capability(capability, architecture):
    assert gpus.architecture_of(capability) == architecture


def test_throttle_reasons_are_the_bits_of_nvml_by_name():
    assert nvml.throttle_reasons(0) == []
    assert nvml.throttle_reasons(0x4 | 0x40) == ["software power cap", "hardware thermal"]
    assert len(nvml.throttle_reasons(0x1FF)) == 9


RECOGNISED = {
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA A100-SXM4-80GB": "a100-sxm",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "Tesla V100-SXM2-16GB": "v100",
    "Tesla T4": "t4",
    "NVIDIA GeForce RTX 2080 Ti": "rtx-2080-ti",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA RTX A4500": "rtx-a4500",
    "NVIDIA RTX A6000": "rtx-a6000",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "NVIDIA L4": "l4",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA B200": "b200",
}


@pytest.mark.parametrize(("name", "file"), RECOGNISED.items())
def test_a_card_is_recognised_by_its_file(name, file):
    assert gpus.recognise(a_device(name)) == file


@pytest.mark.parametrize("name", ["NVIDIA H100 PCIe", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA Unheard 1", ""])
def test_a_card_without_a_file_is_not_recognised(name):
    assert gpus.recognise(a_device(name)) is None


def test_every_file_is_recognised_by_a_card():
    assert set(RECOGNISED.values()) == set(gpus.names())


@pytest.mark.parametrize("name", gpus.names())
def test_every_gpu_file_is_read(name):
    found = gpus.read_gpu(name)
    assert found.name == name
    assert found.file == f"config/gpus/{name}.yaml"
    assert found.architecture == gpus.architecture_of(found.compute_capability)


def test_the_peak_is_two_operations_a_lane_and_cycle():
    assert gpus.read_gpu("h100-sxm").peak_gflops == pytest.approx(132 * 128 * 2 * 1.980e9 / 1e9)


def test_an_unknown_gpu_is_named_beside_the_known_ones():
    known = ", ".join(["auto", *gpus.names()])
    assert line_of(gpus.read_gpu, "mi300").endswith(f"'mi300' has no file in config/gpus; known: {known}")
    for name in ("h100-sx", "h100", "h1000", "h101", "H100"):
        assert line_of(gpus.read_gpu, name).endswith("has no file in config/gpus; did you mean h100-sxm?")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sms": 0}, "sms: 0 is less than 1; it should be: Streaming multiprocessors enabled on this card"),
        ({"fp32_lanes_per_sm": 100}, "fp32_lanes_per_sm: 100 is none of [64, 128]; "),
        ({"sizes": [128, 0]}, "sizes[1]: 0 is less than 1; "),
        ({"smss": 1}, "smss: unknown key; did you mean sms?"),
        ({"match": {}}, "match: 'name' is a required property; add it"),
    ],
)
def test_a_gpu_file_that_breaks_its_schema_is_named_with_the_key(gpu_files, change, message):
    values = yaml.safe_load((gpu_files / "t4.yaml").read_text())
    write(gpu_files / "t4.yaml", yaml.safe_dump(values | change))
    assert line_of(gpus.read_gpu, "t4").startswith(f"config/gpus/t4.yaml: {message}")


UNITS = ["sm_clock_mhz", "memory_bandwidth_gb_s", "memory_gib", "l2_mib", "power_limit_w", "shared_memory_per_sm_kib"]


@pytest.mark.parametrize("key", [*UNITS, "shared_memory_per_block_kib", "registers_per_sm", "max_threads_per_sm"])
def test_a_value_in_another_unit_is_refused_in_every_gpu_file(gpu_files, key):
    for name in gpus.names():
        path = gpu_files / f"{name}.yaml"
        values = yaml.safe_load(path.read_text())
        for wrong in (values[key] * 1000, values[key] / 1000):
            write(path, yaml.safe_dump(values | {key: int(wrong) if isinstance(values[key], int) else wrong}))
            message = line_of(gpus.read_gpu, name)
            assert message.startswith(f"config/gpus/{name}.yaml: {key}: "), message
        write(path, yaml.safe_dump(values))


@pytest.mark.parametrize(("capability", "wrong"), [("9.0", "sm_80"), ("8.0", "sm_80a"), ("12.0", "sm_100a")])
def test_an_architecture_of_another_compute_capability_is_refused(gpu_files, capability, wrong):
    values = yaml.safe_load((gpu_files / "t4.yaml").read_text())
    change = {"compute_capability": capability, "architecture": wrong}
    write(gpu_files / "t4.yaml", yaml.safe_dump(values | change))
    message = line_of(gpus.read_gpu, "t4")
    assert message.startswith(f"config/gpus/t4.yaml: architecture: {wrong} ")
    assert gpus.architecture_of(capability) in message


@pytest.mark.parametrize("name", ["my gpu", "auto", "across", "a.b", "-x"])
def test_a_gpu_file_whose_name_cannot_be_one_is_named(gpu_files, name):
    write(gpu_files / f"{name}.yaml", (gpu_files / "t4.yaml").read_text())
    assert line_of(gpus.names).startswith(f"config/gpus/{name}.yaml: ")


def test_a_gpu_file_may_have_upper_case_in_its_name(gpu_files):
    (gpu_files / "t4.yaml").rename(gpu_files / "My_T4.yaml")
    assert gpus.recognise(a_device("Tesla T4")) == "My_T4"
    assert plan.plan({"gpu": "My_T4", "measure": False}).gpu.name == "My_T4"


def test_two_files_that_fit_one_card_are_named(gpu_files):
    write(gpu_files / "mine.yaml", (gpu_files / "t4.yaml").read_text())
    message = line_of(gpus.recognise, a_device("Tesla T4"))
    assert "mine and t4" in message


@pytest.mark.parametrize(
    ("capability", "cores", "sms", "lanes", "cuda"),
    [
        ("7.0", 5120, 80, 64, "12"),
        ("7.5", 2560, 40, 64, "13"),
        ("8.0", 6912, 108, 64, "13"),
        ("8.6", 10496, 82, 128, "13"),
        ("9.0", 16896, 132, 128, "13"),
        ("10.0", 18944, 148, 128, "13"),
    ],
)
def test_a_gpu_without_a_file_has_its_own_properties(capability, cores, sms, lanes, cuda):
    device = a_device("NVIDIA Unheard 1", compute_capability=capability, cores=cores)
    found = gpus.from_device(device)
    assert (found.sms, found.fp32_lanes_per_sm, found.cuda) == (sms, lanes, cuda)
    assert (found.name, found.title, found.sizes) == ("unheard-1", "NVIDIA Unheard 1", ())
    assert found.architecture == gpus.architecture_of(capability)
    assert found.sm_clock_mhz == 1980
    assert found.memory_bandwidth_gb_s == pytest.approx(2 * 2619e6 * 5120 / 8 / 1e9)


def test_a_gpu_file_is_never_overwritten(gpu_files):
    path = write(gpu_files / "mine.yaml", "mine\n")
    message = line_of(gpus.keep, path, a_device())
    assert message == "config/gpus/mine.yaml: exists already; delete it to write it anew"
    assert path.read_text() == "mine\n"


@pytest.fixture
def with_nvml(monkeypatch):
    """`ladder.system.nvml` on a machine whose NVML has these functions."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def forget():
        nvml._present.cache_clear()
        nvml._nvml.cache_clear()

    def pretend(**functions):
        monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(**functions))
        forget()
        return nvml

    yield pretend
    forget()


def test_a_machine_without_nvml_has_no_gpu(with_nvml):
    def missing():
        raise RuntimeError("no driver")

    assert with_nvml(nvmlInit=missing).present(0) is None


def test_a_card_of_which_nvml_knows_no_power_limit_is_present_all_the_same(with_nvml):
    class NVMLError(Exception):
        pass

    def unsupported(device):
        raise NVMLError

    answers = {
        "nvmlInit": None,
        "nvmlDeviceGetHandleByIndex": "handle",
        "nvmlDeviceGetCudaComputeCapability": (8, 9),
        "nvmlSystemGetCudaDriverVersion": 13000,
        "nvmlDeviceGetName": "NVIDIA GeForce RTX 4090 Laptop GPU",
        "nvmlDeviceGetUUID": "GPU-1",
        "nvmlDeviceGetNumGpuCores": 9728,
        "nvmlDeviceGetMaxClockInfo": 2040,
        "nvmlDeviceGetMemoryBusWidth": 256,
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=16 << 30),
        "nvmlSystemGetDriverVersion": "580.1",
        "nvmlSystemGetNVMLVersion": "13.580.1",
        "nvmlDeviceGetTemperature": 41,
        "nvmlDeviceGetClockInfo": 210,
        "nvmlDeviceGetCurrentClocksEventReasons": 1,
    }
    functions = {name: lambda *_, answer=answer: answer for name, answer in answers.items()}
    constants = {"NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVML_TEMPERATURE_GPU": 0, "NVMLError": NVMLError}
    powers = dict.fromkeys(("nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerUsage"), unsupported)
    card = with_nvml(**functions, **constants, **powers)
    assert card.present(0).power_limit_w is None
    assert (card.present(0).driver, card.present(0).cuda_driver, card.present(0).nvml) == ("580.1", "13.0", "13.580.1")
    assert card.present(0).name.endswith("Laptop GPU")
    assert card.state(0) == {
        "temperature_c": 41,
        "sm_clock_mhz": 210,
        "memory_clock_mhz": 210,
        "throttle_reasons": ["idle"],
    }


# The plan


@pytest.fixture
def machine(project, monkeypatch):
    """Sets the GPU that this machine has."""

    def has(*devices):
        cards = [device for device in devices if device is not None]
        monkeypatch.setattr(nvml, "present", lambda index=0: cards[index] if index < len(cards) else None)

    has(None)
    return has


H100, T4, UNHEARD = a_device(), a_device("Tesla T4"), a_device("NVIDIA Unheard 1")
HINT = "; set gpu=auto, or measure=false for its records"


@pytest.mark.parametrize(
    ("device", "wanted", "measure", "name", "measuring"),
    [
        (None, "auto", "auto", "a100-sxm", False),
        (None, "auto", False, "a100-sxm", False),
        (H100, "auto", "auto", "h100-sxm", True),
        (H100, "auto", True, "h100-sxm", True),
        (H100, "auto", False, "h100-sxm", False),
        (UNHEARD, "auto", "auto", "unheard-1", True),
        (UNHEARD, "auto", True, "unheard-1", True),
        (UNHEARD, "auto", False, "unheard-1", False),
        (None, "h100-sxm", "auto", "h100-sxm", False),
        (None, "h100-sxm", False, "h100-sxm", False),
        (H100, "h100-sxm", "auto", "h100-sxm", True),
        (H100, "h100-sxm", True, "h100-sxm", True),
        (H100, "h100-sxm", False, "h100-sxm", False),
        (T4, "h100-sxm", False, "h100-sxm", False),
        (UNHEARD, "h100-sxm", False, "h100-sxm", False),
    ],
)
def test_the_gpu_and_whether_it_is_measured(machine, device, wanted, measure, name, measuring):
    machine(device)
    found = plan.plan({"gpu": wanted, "measure": measure, "fallback_gpu": "a100-sxm"})
    assert (found.gpu.name, found.measuring) == (name, measuring)
    assert found.device == (device if measuring else None)


@pytest.mark.parametrize(
    ("device", "wanted", "measure", "message"),
    [
        (None, "auto", True, "measure: true, but there is no GPU here; run where `nvidia-smi` lists one"),
        (None, "h100-sxm", True, "gpu: 'h100-sxm' is to be measured, but there is no GPU here" + HINT),
        (T4, "h100-sxm", "auto", "gpu: 'h100-sxm' is to be measured, but the GPU here is Tesla T4" + HINT),
        (T4, "h100-sxm", True, "gpu: 'h100-sxm' is to be measured, but the GPU here is Tesla T4" + HINT),
        (UNHEARD, "t4", "auto", "gpu: 't4' is to be measured, but the GPU here is NVIDIA Unheard 1" + HINT),
    ],
)
def test_a_gpu_that_is_to_be_measured_and_is_not_here_is_an_error(machine, device, wanted, measure, message):
    machine(device)
    assert line_of(plan.plan, {"gpu": wanted, "measure": measure}).endswith(message)


CARDS = [a_device(uuid="GPU-aaaaaaaa-1"), a_device("Tesla T4", uuid="GPU-bbbbbbbb-1"), a_device(uuid="GPU-cccccccc-1")]


@pytest.mark.parametrize(
    ("settings", "gpu", "devices"),
    [
        ({}, "h100-sxm", [0, 2]),
        ({"gpu": "t4"}, "t4", [1]),
        ({"devices": 1}, "t4", [1]),
        ({"devices": "0"}, "h100-sxm", [0]),
        ({"devices": [2, "GPU-aaaaaaaa"]}, "h100-sxm", [2, 0]),
        ({"devices": [0, 1], "gpu": "t4"}, "t4", [1]),
    ],
)
def test_every_gpu_of_one_kind_is_measured_on_or_those_that_are_asked_for(machine, settings, gpu, devices):
    machine(*CARDS)
    found = plan.plan(settings)
    assert (found.gpu.name, list(found.devices)) == (gpu, [CARDS[i] for i in devices])


def test_a_gpu_that_this_machine_has_not_is_one_line_that_says_which_it_has(machine):
    machine(*CARDS)
    message = "devices: 3 is no GPU here; here are 0 (GPU-aaaaaaaa), 1 (GPU-bbbbbbbb), 2 (GPU-cccccccc)"
    assert line_of(plan.plan, {"devices": [0, 3]}).endswith(message)


def test_the_records_of_several_gpus_lie_in_a_folder_that_names_them_or_bears_the_name_that_is_given(machine):
    machine(*CARDS)
    several = plan.plan({})
    assert several.raw().parent.name == "GPU-aaaaaaaa+GPU-cccccccc"
    assert several.headline.startswith("measuring on 2 x NVIDIA H100 80GB HBM3 ")
    assert plan.plan({"records": "bench"}).raw().parent.name == "bench"
    assert "'GPU-1' is not the device here, GPU-aaaaaaaa+GPU-cccccccc; " in line_of(plan.plan, {"records": "GPU-1"})


def test_a_run_on_a_cluster_measures_a_gpu_that_is_named_and_looks_at_none(machine):
    machine(*CARDS)
    found = plan.plan({"measure": "cluster", "gpu": "t4"})
    assert (found.measuring, found.devices, found.raw().parent.name) == (True, (), "cluster")
    assert found.headline.startswith("measuring on nodes of the cluster with NVIDIA Tesla T4 (config/gpus/t4.yaml); ")
    assert "the nodes' GPUs are not seen from here; name one" in line_of(plan.plan, {"measure": "cluster"})


def test_the_headline_names_the_measured_gpu_and_its_driver(machine):
    machine(H100)
    assert plan.plan({}).headline == (
        "measuring on NVIDIA H100 80GB HBM3 (config/gpus/h100-sxm.yaml), driver 580.1; "
        "records: results/h100-sxm/devices/GPU-0/raw"
    )


def test_a_gpu_without_a_file_is_told_how_to_get_one(machine):
    machine(UNHEARD)
    found = plan.plan({})
    assert found.gpu == gpus.from_device(UNHEARD)
    assert found.headline == (
        "measuring on NVIDIA Unheard 1, which has no file in config/gpus and runs from its own properties; "
        "keep them in config/gpus/unheard-1.yaml with: snakemake gpu_file; "
        "records: results/unheard-1/devices/GPU-0/raw"
    )


def test_the_headline_without_a_gpu_and_without_records_says_what_is_left_to_do(machine):
    assert plan.plan({"gpu": "h100-sxm"}).headline == (
        "no GPU is measured, and nothing is recorded for NVIDIA H100 SXM5 80 GB: rungs are compiled and inspected only"
    )


@pytest.mark.parametrize(
    ("days", "span"),
    [(["2026-01-02"], "2026-01-02"), (["2026-01-05", "2026-01-02", "2026-01-03"], "2026-01-02 to 2026-01-05")],
)
def test_the_headline_without_a_gpu_says_what_was_recorded_when(machine, project, days, span):
    for index, day in enumerate(days):
        record = a_check()
        record["where"]["measured_at"] = f"{day}T03:04:05+00:00"
        store.write_json(project / f"results/h100-sxm/raw/check/rung{index}.json", record)
    store.write_json(project / "results/h100-sxm/raw/check/lost.json", {"status": "failed", "cases": []})
    assert plan.plan({"gpu": "h100-sxm"}).headline == (
        f"no GPU is measured: results are the measurements that ship, of NVIDIA H100 80GB HBM3, {span}"
    )


@pytest.mark.parametrize(
    ("sizes", "missing"),
    [([512], ""), ([512, 768], "768"), ([2**31, "8x9x10"], "2147483648, 8x9x10"), ([10**21], str(10**21))],
)
def test_the_headline_says_which_sizes_are_not_recorded_and_which_are(machine, project, sizes, missing):
    times = {("naive", size): [1e-3] for size in ("1024", "512")}
    store.add_run(project / "results/h100-sxm/raw/time/naive.zip", time_run("naive", times))
    line = plan.plan({"gpu": "h100-sxm", "sizes": sizes}).headline
    assert line.partition("; not recorded: ")[2] == (f"{missing}; recorded are 512, 1024" if missing else "")


@pytest.mark.parametrize(
    ("given", "folder"),
    [
        ({}, "all"),
        ({"gpu": "t4", "measure": False, "remeasure": True}, "all"),
        ({"kernels": ["naive"]}, "selected"),
        ({"sizes": [512]}, "selected"),
        ({"check": {"shapes": [1]}}, "selected"),
        ({"profile": {"enabled": False}}, "selected"),
    ],
)
def test_only_the_whole_ladder_as_it_is_configured_is_derived_beside_no_selection(machine, given, folder):
    assert plan.plan(given, dict.fromkeys(given, "--config")).folder == folder


def test_a_selection_in_the_configuration_itself_is_one_too(machine):
    assert plan.plan({"kernels": ["naive"]}).folder == "selected"


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("naive", ["naive", "cublas"]),
        ("cublas", ["cublas", "naive"]),
        ("coalesced", ["coalesced", "cublas", "naive"]),
        ("tiled@TILE=8", ["tiled@TILE=8", "cublas", "naive", "coalesced"]),
        ("tiled@TILE=24", ["tiled@TILE=24", "cublas", "naive", "coalesced"]),
        ("empty", ["empty"]),
    ],
)
def test_a_rung_is_timed_beside_the_baseline_the_first_and_the_one_before(machine, name, beside):
    assert plan.plan({"kernels": ["naive", "tiled@TILE=24"]}).side_by_side(name) == beside


@pytest.mark.parametrize(
    ("references", "beside"),
    [
        ([], []),
        (["before"], ["coalesced"]),
        (["naive", "cublas"], ["naive", "cublas"]),
        (["cublas_best"], []),
        (["cublas", "before"], ["cublas", "coalesced"]),
    ],
)
def test_a_rung_is_timed_beside_the_references_that_are_configured(machine, references, beside):
    found = plan.plan({"kernels": ["tiled@TILE=8"], "timing": {"references": references}})
    assert found.side_by_side("tiled@TILE=8") == ["tiled@TILE=8", *beside]
    assert [rung.name for rung in found.needed] == ["tiled@TILE=8", *beside]


@pytest.mark.parametrize(
    ("references", "beside"),
    [
        (["cublas", "cublas_best"], ["cublas", "best"]),
        (["cublas_best", "naive"], ["best", "naive"]),
        (["cublas"], ["cublas"]),
    ],
)
def test_the_other_libraries_of_a_class_are_a_reference_of_their_own(project, machine, references, beside):
    best = entry(role="baseline", source="cublas.cu")
    write(project / "config/kernels.yaml", json.dumps(KERNELS | {"best": best, "tf": best | {"precision": "tf32"}}))
    found = plan.plan({"kernels": ["tiled@TILE=8"], "timing": {"references": references}})
    assert found.side_by_side("tiled@TILE=8") == ["tiled@TILE=8", *beside]
    assert [rung.name for rung in plan.plan({}).accurate] == ["cublas", "tf"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiled@TLE=24", "kernels/tiled.cu has no macro TLE; did you mean TILE?"),
        ("naive@WIDE=1", "kernels/naive.cu has no macro WIDE; give it a default there: #ifndef, #define, #endif"),
    ],
)
def test_a_macro_that_no_source_names_is_one_line(machine, name, message):
    settings = {"kernels": ["cublas", name]}
    assert line_of(plan.plan, settings, {"kernels": "--config"}) == f"--config: kernels: {name}: {message}"


@pytest.mark.parametrize("key", ["ladder", "results"])
@pytest.mark.parametrize("path", ["~nobody_of_this_name/x", "circle/x", "x" * 300, "a\0b"])
def test_a_path_that_leads_nowhere_is_named_with_its_key(machine, tmp_path, monkeypatch, key, path):
    (tmp_path / "circle").symlink_to("circle")
    monkeypatch.setattr("ladder.system.paths.ROOT", tmp_path)
    places = {key: "--config"}
    message = line_of(plan.plan, {key: path}, places)
    assert message.startswith(f"--config: {key}: ")
    assert message.endswith("; mend the path")


@pytest.mark.parametrize("kind", ["missing", "pipe", "device", "folder"])
def test_a_ladder_that_is_no_file_is_named_with_its_key(machine, tmp_path, kind):
    spoilt(tmp_path / "kernels.yaml", kind)
    message = line_of(plan.plan, {"ladder": str(tmp_path / "kernels.yaml")}, {"ladder": "--config"})
    assert message.startswith(f"--config: ladder: {'/dev/zero' if kind == 'device' else 'kernels.yaml'}: ")


def test_a_size_that_is_none_is_named_with_the_key_that_gave_it(machine):
    message = line_of(plan.plan, {"gpu": "t4", "measure": False, "default_sizes": ["a"]}, {"default_sizes": "--config"})
    assert message.startswith("--config: default_sizes[0]: 'a' is ")


def test_what_a_rung_is_compared_with_is_compiled_and_checked_as_well(machine):
    found = plan.plan({"kernels": ["empty", "tiled@TILE=24"]})
    assert [rung.name for rung in found.rungs] == ["empty", "tiled@TILE=24"]
    assert [rung.name for rung in found.needed] == ["empty", "tiled@TILE=24", "cublas", "naive", "coalesced"]
    assert found.checked == ["tiled@TILE=24", "cublas", "naive", "coalesced"]
    assert found.by_name("tiled@TILE=24").macros == {"TILE": "24"}


PASSING = {
    "of another GPU": ({}, {"naive": "h100-sxm"}),
    "of none that failed": ({"status": "failed"}, {}),
    "of no other source": ({"source_digest": "another"}, {}),
    "of no other declaration": ({"declared": {"deterministic": False}}, {}),
    "of no other claims": ({"claims": {"beta": 0}}, {}),
    "of none that cannot be read": (None, {}),
}


@pytest.mark.parametrize(("changes", "passed_on"), PASSING.values(), ids=PASSING)
def test_a_source_passed_where_a_record_of_any_gpu_says_so(machine, project, changes, passed_on):
    found = plan.plan({"kernels": ["naive"], "gpu": "t4"})
    record = a_check() | {"declared": found.first.declared} | (changes or {})
    record["where"]["compile"]["source_digest"] = (changes or {}).get("source_digest") or source_digest(found.first)
    path = project / "results/h100-sxm/raw/check/naive.json"
    store.write_json(path, record)
    if changes is None:
        path.write_text("damaged")
    assert found.passed_on() == passed_on


def test_a_source_that_passed_as_it_is_tuned_for_one_gpu_passed(machine, project):
    write(project / "kernels/coalesced.cu", '#include "gemm.cuh"\n#ifndef TILE\n#define TILE 4\n#endif\n')
    tuned = Tuned((Shape(512, 512, 512),), {"coalesced": {Shape(512, 512, 512): {"TILE": 16}}})
    write(project / "config/tuned/h100-sxm.yaml", tuned_text("h100-sxm", tuned))
    there = plan.plan({"kernels": ["coalesced"], "gpu": "h100-sxm", "tune": {"use": True}}).by_name("coalesced")
    record = a_check() | {"rung": "coalesced", "declared": there.declared}
    record["where"]["compile"]["source_digest"] = source_digest(there)
    store.write_json(project / "results/h100-sxm/raw/check/coalesced.json", record)
    here = plan.plan({"kernels": ["coalesced"], "gpu": "t4"})
    assert source_digest(here.by_name("coalesced")) != source_digest(there)
    assert here.passed_on() == {"coalesced": "h100-sxm"}


@pytest.mark.parametrize(("enabled", "profiled"), [(True, ["cublas", "naive"]), (False, []), ("false", [])])
def test_only_rungs_of_the_run_are_profiled_and_none_where_profiling_is_off(machine, enabled, profiled):
    config = {"kernels": ["empty", "cublas", "naive"], "profile": {"enabled": enabled}}
    assert plan.plan(config).profiled == profiled


def test_a_floor_is_timed_at_the_smallest_shape_and_that_of_most_work(machine):
    found = plan.plan({"sizes": [512, 128, 256]})
    assert found.timed("empty") == [Shape(128, 128, 128), Shape(512, 512, 512)]
    assert found.timed("naive") == [Shape(512, 512, 512), Shape(128, 128, 128), Shape(256, 256, 256)]


def test_what_is_timed_profiled_or_sustained_is_checked_as_it_is_run(machine):
    config = {
        "sizes": [128, 96],
        "profile": {"sizes": [64]},
        "sustained": {"sizes": [80]},
        "check": {"shapes": [7], "cases": [{"alpha": 2}], "families": []},
    }
    run = plan.plan(config)
    computed = [asked("7", alpha=2), asked("64"), asked("80"), asked("96"), asked("128")]
    products = [*computed, *OF_WHOLE_TILES, *GPU_ALONE, *BEYOND_31_BITS]
    assert run.cases("cublas") == products
    assert run.cases("naive") == run.cases() == [*products, *probes(PROBES)]


def test_gaps_beyond_31_bits_are_reserved_and_not_filled_so_that_a_small_gpu_holds_the_products():
    assert all(max(case.paddings) >= WIDE for case in BEYOND_31_BITS)
    filled = [case for case in GPU_ALONE + OF_WHOLE_TILES + BEYOND_31_BITS if max(case.paddings) < WIDE]
    assert max(most_elements(case.shape) for case in filled) < 1 << 25


def test_numbers_that_have_no_finite_value_in_tf32_are_not_asked_of_a_rung_that_declares_it():
    names = ["tf32", "cublas_tf32", "mma_3xtf32"]
    run = plan.plan({"kernels": names, "check": {"drawn": 121}})

    def drawn(name: str) -> list[Case]:
        return [case for seed in range(1, 6) for case in run.drawing(name).cases(seed)]

    for cases in (run.cases, run.emulated_cases, drawn):
        assert ["largest" in {case.family for case in cases(name)} for name in names] == [False, False, True]


@pytest.mark.parametrize(
    ("sizes", "shapes"),
    [
        ([256, "1x2x3"], ["256", "1x2x3"]),
        (64, ["64"]),
        ("64", ["64"]),
        ("1x2x3", ["1x2x3"]),
        ("gpu", ["5", "6"]),
    ],
)
def test_the_sizes_are_those_asked_for_or_the_default_ones(machine, sizes, shapes):
    found = plan.plan({"sizes": sizes, "default_sizes": [5, 6], "gpu": "h100-sxm"})
    assert [str(shape) for shape in found.shapes] == shapes


def test_without_a_gpu_the_default_sizes_are_joined_by_what_is_recorded(machine):
    raw = plan.ROOT / "results" / "h100-sxm" / "raw" / "time"
    for rung, shape in (("naive", "8"), ("tiled", "64x2x2")):
        store.add_run(raw / f"{rung}.zip", time_run(rung, {(rung, shape): [1e-3]}))
    (raw / "coalesced.zip").write_bytes(b"half of a record")
    settings = {"gpu": "h100-sxm", "measure": False, "default_sizes": [6, 5]}
    assert [str(shape) for shape in plan.plan(settings).shapes] == ["6", "5", "8", "64x2x2"]
    assert [str(shape) for shape in plan.plan({**settings, "sizes": [5]}).shapes] == ["5"]


def test_the_sizes_of_the_gpu_file_come_before_the_default_ones(machine, gpu_files):
    values = yaml.safe_load((gpu_files / "t4.yaml").read_text())
    write(gpu_files / "t4.yaml", yaml.safe_dump(values | {"sizes": [96, "1x2x3"]}))
    assert plan.plan({"gpu": "t4", "default_sizes": [5]}).shapes == (Shape(96, 96, 96), Shape(1, 2, 3))


@pytest.mark.parametrize("letter", session.UNREADABLE)
def test_a_folder_whose_name_cannot_be_taken_is_one_line_that_names_the_letter(monkeypatch, letter):
    monkeypatch.setattr(session, "ROOT", Path(f"/somewhere/a{letter}b"))
    line = line_of(session.check_place, True)
    assert repr(letter) in line
    assert "\n" not in line


def test_jobs_find_the_package_as_bytecode_where_python_is_told_to_write_none(tmp_path):
    shutil.copytree(
        REPOSITORY / "workflow" / "ladder", tmp_path / "ladder", ignore=shutil.ignore_patterns("__pycache__")
    )
    offer = "from ladder.commands.session import offer_package; offer_package()"
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPYCACHEPREFIX"}
    variables |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", offer], env=variables, check=True)
    compiled = {
        path.parents[1] / f"{path.name.split('.')[0]}.py" for path in tmp_path.glob("ladder/**/__pycache__/*.pyc")
    }
    assert compiled == set(tmp_path.glob("ladder/**/*.py"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"sizes": ["foo"]}, "sizes[0]: 'foo' is neither a positive integer nor MxNxK; write 1024 or 512x1024x2048"),
        ({"sizes": ["0"]}, "sizes[0]: 0 is not a positive integer; write 1 or more"),
        ({"profile": {"sizes": ["0"]}}, "profile.sizes[0]: 0 is not a positive integer; write 1 or more"),
        ({"kernels": ["nave"]}, "kernels[0]: 'nave' is no kernel; did you mean naive?"),
    ],
)
@pytest.mark.parametrize(("sources", "place"), [(None, "config/config.yaml"), ("--config", "--config")])
def test_a_plan_that_cannot_be_names_where_the_key_came_from(machine, config, message, sources, place):
    places = dict.fromkeys(config, sources) if sources else None
    assert line_of(plan.plan, config, places) == f"{place}: {message}"


@pytest.mark.parametrize("tool", plan.PROGRAMS)
@pytest.mark.parametrize(("sources", "place"), [({}, "config/config.yaml"), ("given", "--config")])
def test_a_program_that_is_none_is_named_with_the_place_that_gave_it(machine, tool, sources, place):
    machine(H100)
    section, key = plan.PROGRAMS[tool], tool.replace("-", "_")
    places = {f"{section}.{key}": "--config"} if sources else {}
    message = line_of(plan.plan, {section: {key: "/no/such"}}, places)
    assert message.startswith(f"{place}: {section}.{key}: '/no/such' is no program")


@pytest.mark.parametrize("section", ["check", "sanitize", "tune"])
@pytest.mark.parametrize("shape", ["foo", "2147483648x1x1"])
def test_a_check_shape_that_is_none_is_named(machine, section, shape):
    message = line_of(plan.plan, {section: {"shapes": [7, shape]}})
    assert message.startswith(f"config/config.yaml: {section}.shapes[1]: {shape!r} ")
    assert message.endswith("; write 127 or 31x33x0")


def test_a_check_shape_may_be_nothing(machine):
    assert asked("0x5x7") in plan.plan({"check": {"shapes": ["0x5x7"]}, "sizes": [5]}).cases()


def test_each_family_of_inputs_is_checked_at_its_shapes_with_every_case_that_multiplies(machine):
    check = {
        **{"shapes": [7], "cases": [{}, {"alpha": 0}, {"beta": 1}]},
        **{"families": ["normal", "nonfinite"], "family_shapes": ["2x3x4"]},
    }
    configured = [case for case in plan.plan({"sizes": [96], "check": check}).cases() if case not in GPU_ALONE]
    cases = [case for case in configured if case.family != "uniform"]
    assert cases == [asked("2x3x4", family=family, beta=beta) for family in ("normal", "nonfinite") for beta in (0, 1)]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"families": ["gaussian"]}, "check.families[0]: 'gaussian' is none of"),
        ({"family_shapes": ["3x0x5"]}, "check.family_shapes[0]: 3x0x5 is not a positive integer"),
        ({"runs": 0}, "check.runs: 0 is less than 1"),
    ],
)
def test_what_is_wrong_with_families_and_runs_is_told_in_one_line(machine, check, message):
    assert message in line_of(plan.plan, {"check": check})


def test_what_is_emulated_does_not_depend_on_what_is_timed(machine):
    assert plan.plan({"sizes": [64]}).emulated_cases() == plan.plan({"sizes": [128, 4096]}).emulated_cases()
