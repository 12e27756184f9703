"""A Slurm of one node on this machine, for tests: Debian's slurmctld, slurmd and munged, no systemd and no cgroups."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

CONFIGURATION = Path("/etc/slurm")  # where a job's srun looks, which does not inherit SLURM_CONF
MARK = "# of gemm-ladder's tests\n"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
CONF = """{mark}ClusterName=tests
SlurmctldHost={host}
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldParameters=idle_on_node_suspend
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
MinJobAge=300
KillWait=2
OverTimeLimit=0
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
NodeName={host} CPUs={cpus} RealMemory=64000 Gres=gpu:h100:2,gpu:h200:1 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4 PriorityTier=1
PartitionName=gpu Nodes={host} MaxTime=INFINITE State=UP OverSubscribe=FORCE:4 PriorityTier=1
PartitionName=urgent Nodes={host} MaxTime=INFINITE State=UP PriorityTier=9
"""
GRES = """{mark}Name=gpu Type=h100 File=/dev/null
Name=gpu Type=h100 File=/dev/zero
Name=gpu Type=h200 File=/dev/full
"""

# A sitecustomize.py: the executor asks Slurm again every second, and not ten seconds later each time.
ASKS_OFTEN = """
import sys

if "profiles/slurm" in sys.orig_argv:
    from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

    RemoteExecutor.next_seconds_between_status_checks = property(lambda self: 1, lambda self, seconds: None)
"""


def missing() -> str:
    """Why no Slurm can be started here, in one line; empty where it can."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return "one Slurm at a time: `make test-slurm` runs these tests alone"
    if os.geteuid() != 0:
        return "a Slurm of its own needs root"
    here = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    if absent := [name for name in PROGRAMS if shutil.which(name, path=here) is None]:
        return f"{', '.join(absent)}: not installed (Debian: apt install slurmctld slurmd munge slurm-client)"
    conf = CONFIGURATION / "slurm.conf"
    if conf.exists() and not conf.read_text().startswith(MARK):
        return f"{conf}: this machine belongs to a cluster"
    if find_spec("snakemake_executor_plugin_slurm") is None:
        return "snakemake-executor-plugin-slurm: not installed (make env EXTRA=slurm)"
    return ""


@contextmanager
def a_cluster(folder: Path) -> Iterator[None]:
    """Run a Slurm of one node with two H100 and one H200 that are none; end it, and take its files away, at the end."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().partition(".")[0]
    values = {"mark": MARK, "host": host, "folder": folder, "cpus": os.cpu_count()}
    CONFIGURATION.mkdir(exist_ok=True)
    files = {"slurm.conf": CONF, "gres.conf": GRES}
    for name, text in files.items():
        (CONFIGURATION / name).write_text(text.format(**values))
    environment = {**os.environ, "PATH": os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])}
    started = []
    try:
        if subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode != 0:
            Path("/run/munge").mkdir(mode=0o755, exist_ok=True)
            subprocess.run(["munged", "--force"], env=environment, check=True, capture_output=True)
        for program in ("slurmctld", "slurmd"):
            with (folder / f"{program}.out").open("wb") as out:
                command = [program, "-D"]
                started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
        end = time.monotonic() + 60
        while True:
            told = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True, check=False)
            if {"idle", "mix", "alloc"} & set(told.stdout.split()):
                break
            assert time.monotonic() < end, f"no node is up: {told.stdout}{told.stderr}"
            time.sleep(0.2)
        yield
    finally:
        subprocess.run(["scancel", "--user", "root"], capture_output=True, check=False)
        for process in reversed(started):
            process.terminate()
            process.wait(30)
        for each in Path("/proc").glob("[0-9]*/environ"):  # what a job has left behind
            with suppress(OSError):
                if b"SLURM_CLUSTER_NAME=tests\0" in each.read_bytes():
                    os.kill(int(each.parent.name), signal.SIGKILL)
        for name in files:
            (CONFIGURATION / name).unlink(missing_ok=True)
