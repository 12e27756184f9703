"""The tools that record evidence: what they are asked, and that they record nothing where they cannot."""

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace

import pytest
import recording
from conftest import a_device
from ladder.records.store import read_json
from ladder.system.nvml import VISIBLE
from ladder.system.paths import ROOT
from pipeline import environment
from recording import CHECKS_AT_ONCE, on_every_gpu


def test_the_readme_lists_every_command():
    listed = re.findall(r"^\| `python tools (\w+ \w+)", (ROOT / "tools/README.md").read_text(), re.MULTILINE)
    tools = (path.stem for path in (ROOT / "tools").glob("record_*.py"))
    there = [f"{tool.removeprefix('record_')} {name}" for tool in tools for name in import_module(tool).COMMANDS]
    assert sorted(listed) == sorted(there)


def tools(*arguments: str) -> subprocess.CompletedProcess:
    """The command as a maintainer gives it, without a GPU."""
    command = [sys.executable, "tools", *arguments]
    variables = environment(ROOT, gpu=False)
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def test_help_names_every_tool_and_every_command():
    listed = tools("--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    for path in (ROOT / "tools").glob("record_*.py"):
        name = path.stem.removeprefix("record_")
        assert name in listed.stdout
        told = tools(name, "--help")
        assert (told.returncode, told.stderr) == (0, "")
        assert all(each in told.stdout for each in import_module(path.stem).COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "TOOL"),
        (["fault"], "'fault'"),
        (["faults"], "COMMAND"),
        (["faults", "emulated"], "'emulated'"),
        (["faults", "seeds", "0"], "0 is not a positive integer"),
        (["faults", "emulator", "now"], "now"),
        (["attacks", "sound", "0"], "0 is not a positive integer"),
    ],
)
def test_a_command_that_there_is_not_is_one_line_that_says_where_help_is(arguments, words):
    said = tools(*arguments)
    assert said.returncode != 0
    assert said.stdout == ""
    (line,) = said.stderr.splitlines()
    tool, _, problem = line.partition(": ")
    assert tool.startswith("python tools")
    assert words in problem
    assert problem.endswith(" --help")


@pytest.mark.parametrize("tool", ["errors", "faults", "measuring"])
def test_where_no_gpu_is_measured_nothing_is_recorded(tool):
    record = ROOT / f"results/h100-sxm/raw/{tool}.json"
    before = record.read_bytes()
    said = tools(tool, "gpu")
    assert said.returncode != 0
    (line,) = said.stderr.splitlines()
    assert line.startswith("gemm-ladder: no GPU is measured: ")
    assert line.endswith("; run where `nvidia-smi` lists a GPU")
    assert record.read_bytes() == before


def test_a_record_is_of_the_gpu_that_is_here_alone_on_it(monkeypatch, tmp_path):
    held = []

    @contextmanager
    def lease(uuids, resting=()):
        held.extend(uuids)
        yield uuids[0]
        held.clear()

    def planned(config):
        device = SimpleNamespace(uuid="the GPU")
        return SimpleNamespace(measuring=True, devices=[device], raw=lambda: tmp_path, sizes=config["sizes"])

    monkeypatch.setattr(recording, "gpu_lease", lease)
    monkeypatch.setattr(recording, "plan", planned)
    recording.record_as("one.json", lambda run: {"sizes": run.sizes, "alone on": list(held)}, sizes=[64])
    record = read_json(tmp_path / "one.json")
    assert (record["sizes"], record["alone on"]) == ([64], ["the GPU"])


def test_items_are_spread_over_every_gpu_and_each_process_sees_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "CORES", 8)
    gpus = [a_device(uuid=f"GPU-{number}") for number in range(2)]

    def of_one(item, device, turn):
        with turn:
            (mark := tmp_path / f"{device.uuid} {item}").touch()
            at_once = len(list(tmp_path.glob(f"{device.uuid} *")))
            time.sleep(0.05)
            mark.unlink()
        return item, device.uuid, os.environ[VISIBLE], at_once

    found = list(on_every_gpu(gpus, of_one, range(16)))
    assert sorted(item for item, *_ in found) == list(range(16))
    assert {uuid for _, uuid, _, _ in found} == {"GPU-0", "GPU-1"}
    assert all(uuid == visible for _, uuid, visible, _ in found)
    assert max(at_once for *_, at_once in found) <= CHECKS_AT_ONCE
