"""The GPU files: well formed, each recognises its own card and no other, and agrees with the published figures."""

import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/gpu.schema.yaml").read_text())
GPUS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((ROOT / "config/gpus").glob("*.yaml"))}

# Names as NVML reports them.
NVML_NAMES = {
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA A100-SXM4-80GB": "a100-sxm",
    "NVIDIA A100-SXM-80GB": "a100-sxm",
    "A100-SXM4-80GB": "a100-sxm",
    "A100-SXM-80GB": "a100-sxm",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40gb",
    "A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "A100-PCIE-40GB": "a100-pcie-40gb",
    "Tesla V100-SXM2-16GB": "v100",
    "Tesla V100-SXM2-32GB": "v100",
    "Tesla V100-SXM3-32GB": "v100",
    "Tesla V100-PCIE-16GB": "v100",
    "Tesla V100-PCIE-32GB": "v100",
    "Tesla V100-DGXS-32GB": "v100",
    "Tesla T4": "t4",
    "NVIDIA GeForce RTX 2080 Ti": "rtx-2080-ti",
    "GeForce RTX 2080 Ti": "rtx-2080-ti",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "GeForce RTX 3090": "rtx-3090",
    "NVIDIA RTX A4500": "rtx-a4500",
    "NVIDIA RTX A6000": "rtx-a6000",
    "RTX A6000": "rtx-a6000",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA L4": "l4",
    "NVIDIA B200": "b200",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
}

# Cards whose names are close to one above and whose ceilings are not.
OTHER_NAMES = [
    "NVIDIA H100 PCIe",
    "NVIDIA H100 NVL",
    "NVIDIA H200 NVL",
    "NVIDIA GH200 480GB",
    "NVIDIA GB200",
    "NVIDIA A100-SXM-64GB",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "Tesla V100S-PCIE-32GB",
    "NVIDIA T400",
    "NVIDIA GeForce RTX 2080",
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA RTX A4500 Laptop GPU",
    "NVIDIA RTX 6000 Ada Generation",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 5090 D",
    "NVIDIA GeForce RTX 5090 Laptop GPU",
    "NVIDIA L40",
    "NVIDIA L40S",
    "Quadro RTX 6000",
]

# FP32 peak without tensor cores, TFLOP/s, as NVIDIA publishes it.
PUBLISHED_TFLOPS = {
    "h100-sxm": 67.0,  # H100 datasheet
    "h200-sxm": 67.0,  # H200 datasheet
    "a100-sxm": 19.5,  # A100 datasheet
    "a100-sxm-40gb": 19.5,  # A100 datasheet
    "a100-pcie": 19.5,  # A100 datasheet
    "a100-pcie-40gb": 19.5,  # A100 datasheet
    "v100": 15.7,  # V100 datasheet, for NVLink
    "t4": 8.1,  # T4 datasheet
    "rtx-2080-ti": 13.4,  # Turing whitepaper, reference card
    "rtx-3090": 35.6,  # Ampere GA102 whitepaper
    "rtx-a4500": 23.7,  # RTX A4500 datasheet
    "rtx-a6000": 38.7,  # RTX A6000 datasheet
    "rtx-4090": 82.6,  # Ada whitepaper
    "l4": 30.3,  # L4 datasheet
    "b200": 75.0,  # HGX B200 datasheet: 600 for eight
    "rtx-5090": 104.8,  # RTX Blackwell whitepaper
}

# CUDA programming guide, technical specifications per compute capability:
# shared memory an SM, a block (KiB); registers, threads, blocks an SM.
SM_LIMITS = {
    "7.0": (96, 96, 65536, 2048, 32),
    "7.5": (64, 64, 65536, 1024, 16),
    "8.0": (164, 163, 65536, 2048, 32),
    "8.6": (100, 99, 65536, 1536, 16),
    "8.9": (100, 99, 65536, 1536, 24),
    "9.0": (228, 227, 65536, 2048, 32),
    "10.0": (228, 227, 65536, 2048, 32),
    "12.0": (100, 99, 65536, 1536, 24),
}

each_gpu = pytest.mark.parametrize("gpu", GPUS)


def matching(name: str) -> list[str]:
    """The GPU files that recognise a name from NVML."""
    return [gpu for gpu, facts in GPUS.items() if re.search(facts["match"]["name"], name)]


def peak_tflops(facts: dict) -> float:
    """The FP32 peak that a GPU file implies."""
    return facts["sms"] * facts["fp32_lanes_per_sm"] * 2 * facts["sm_clock_mhz"] * 1e-6


def properties(schema: object, where: str = "") -> list[tuple[str, dict]]:
    """Every property that a schema defines, at any depth, with its path."""
    found = []
    if isinstance(schema, dict):
        for name, subschema in schema.get("properties", {}).items():
            found += [(f"{where}.{name}", subschema), *properties(subschema, f"{where}.{name}")]
    return found


def test_schema_is_a_valid_json_schema():
    Draft202012Validator.check_schema(SCHEMA)


def test_schema_describes_every_property():
    assert [path for path, subschema in properties(SCHEMA) if not subschema.get("description")] == []


def test_schema_defaults_obey_the_schema():
    for path, subschema in properties(SCHEMA):
        if "default" in subschema:
            assert Draft202012Validator(subschema).is_valid(subschema["default"]), path


@each_gpu
def test_file_obeys_the_schema(gpu):
    errors = Draft202012Validator(SCHEMA).iter_errors(GPUS[gpu])
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


@pytest.mark.parametrize(
    "change",
    [
        {"compute_capability": 9.0},
        {"architecture": "compute_90"},
        {"sms": 0},
        {"cuda": 13},
        {"match": {"name": "H100"}},
        {"match": {}},
        {"sizes": [0]},
        {"sizes": ["128x128"]},
        {"fp32_tflops": 66.9},
    ],
    ids=str,
)
def test_schema_rejects(change):
    assert not Draft202012Validator(SCHEMA).is_valid(GPUS["h100-sxm"] | change)


@pytest.mark.parametrize("sizes", [[128, 4096], ["128", "4096x1024x512"]], ids=str)
def test_schema_accepts_sizes(sizes):
    assert Draft202012Validator(SCHEMA).is_valid(GPUS["h100-sxm"] | {"sizes": sizes})


@pytest.mark.parametrize(("name", "gpu"), NVML_NAMES.items())
def test_known_name_matches_exactly_its_file(name, gpu):
    assert matching(name) == [gpu]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_name_of_another_card_matches_no_file(name):
    assert matching(name) == []


@each_gpu
def test_file_has_a_known_name(gpu):
    assert gpu in NVML_NAMES.values()


@each_gpu
def test_fp32_peak_is_near_the_published_one(gpu):
    assert peak_tflops(GPUS[gpu]) == pytest.approx(PUBLISHED_TFLOPS[gpu], rel=0.05)


def test_fp32_peak_of_the_h100_sxm():
    assert round(peak_tflops(GPUS["h100-sxm"]), 1) == 66.9


@each_gpu
def test_sm_limits_are_those_of_the_compute_capability(gpu):
    facts = GPUS[gpu]
    limits = (
        facts["shared_memory_per_sm_kib"],
        facts["shared_memory_per_block_kib"],
        facts["registers_per_sm"],
        facts["max_threads_per_sm"],
        facts["max_blocks_per_sm"],
    )
    assert limits == SM_LIMITS[facts["compute_capability"]]


@each_gpu
def test_architecture_is_that_of_the_compute_capability(gpu):
    facts = GPUS[gpu]
    major, minor = facts["compute_capability"].split(".")
    suffix = "a" if int(major) >= 9 else ""
    assert facts["architecture"] == f"sm_{major}{minor}{suffix}"


@each_gpu
def test_cuda_13_is_asked_for_only_where_it_compiles(gpu):
    facts = GPUS[gpu]
    major, minor = map(int, facts["compute_capability"].split("."))
    assert facts["cuda"] == ("13" if (major, minor) >= (7, 5) else "12")
