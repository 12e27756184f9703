"""What is compared of the libraries in a process, by which a rung that changes one is found."""

import json
import subprocess
import sys

import pytest
from ladder.system.paths import ROOT

# A library that asks another one the time, through its table of addresses.
SOURCE = """
#include <ctime>
extern "C" long asked() { return time(nullptr); }
"""

# Prints what is found to have changed when an address in the table has.
CHANGE = """
import ctypes, json, os, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from ladder.measure.watch import code, tables_of_addresses

path = Path(sys.argv[2])
library = ctypes.CDLL(str(path), mode=os.RTLD_NOW)
before = dict(code(set()))
base = min(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if str(path) in line)
(offset, size) = max(tables_of_addresses(path), key=sum)
place = base + offset + size - 8  # the last of the table: the imported function's, where that has a table of its own
ctypes.CDLL(None).mprotect(ctypes.c_void_p(place & ~4095), 4096, 3)
ctypes.c_uint64.from_address(place).value ^= 1 << 60
after = dict(code(set()))
changed = sorted(name for name in before if after.get(name) != before[name])
print(json.dumps(changed), flush=True)
os._exit(0)  # a library's last steps would go through the table
"""


@pytest.mark.parametrize(
    "flags",
    [["-Wl,-z,now"], ["-Wl,-z,lazy", "-Wl,-z,relro"], ["-Wl,-z,lazy", "-Wl,-z,norelro"]],
    ids=["all of the table is read-only", "a part of it", "nothing of it"],
)
def test_an_address_that_is_put_into_a_librarys_table_is_found(tmp_path, flags):
    library, source = tmp_path / "library.so", tmp_path / "source.cpp"
    source.write_text(SOURCE)
    subprocess.run(["g++", "-shared", "-fPIC", *flags, "-o", library, source], check=True)
    command = [sys.executable, "-c", CHANGE, str(ROOT / "workflow"), str(library)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={"LD_BIND_NOW": "1"})
    changed = json.loads(said.stdout)
    assert len(changed) >= 1
    assert all(str(library) in name for name in changed)
