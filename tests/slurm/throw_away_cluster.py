"""A Slurm cluster of some nodes on this one machine, for as long as a block lasts.

All that it is lies in one folder: keys, sockets, state, logs. The machine's own files are neither read nor written:
the nodes have addresses of the loopback network, so their names need not be known to anyone but Slurm. Each cluster
has ports of its own and begins to count its jobs elsewhere, so two of them do not meet.
"""

import contextlib
import os
import pwd
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CPUS_PER_NODE = 8
GPUS_PER_NODE = 8
LIMIT_S = 60.0
POLL_S = 0.2
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "sinfo")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"  # where daemons are, not in everybody's path

SLURM_CONF = """\
ClusterName=throwaway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A job that was requeued waits as long as its credential lives, 120 seconds where nobody sets it.
AuthInfo=socket={folder}/munge.sock,cred_expire={requeue_delay}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
SlurmdTimeout={node_timeout}
SlurmctldTimeout=10
InactiveLimit=0
KillWait=20
MinJobAge=600
FirstJobId={first_job}
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{preempt_signal}
GresTypes=gpu
{nodes}
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


class NoCluster(Exception):
    """Slurm is not installed here, or does not come up: why."""


@dataclass(slots=True)
class Cluster:
    """A cluster that runs. nodes: their names. environment: what its commands and jobs need beside PATH."""

    folder: Path
    nodes: tuple[str, ...]
    environment: dict[str, str]
    _machines: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def run(self, *command: str, cwd: Path | None = None, fails: bool = False, **environment: str) -> str:
        """What a command of Slurm prints. It fails the test, with its words, where it fails, or where it should."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
        assert (done.returncode != 0) is fails, f"{' '.join(command)}: {done.stdout}"
        return done.stdout.strip()

    def job(self, job_id: str) -> dict[str, str]:
        """What the controller knows of a job: JobState, Reason, NodeList, Restarts, BatchHost, ..."""
        return dict(re.findall(r"(\S+?)=(\S*)", self.run("scontrol", "show", "job", "--oneliner", job_id)))

    def cancel_all(self) -> None:
        """Ends every job, at once."""
        jobs = self.run("squeue", "--noheader", "--format=%A").split()
        for how in (("--full", "--signal=KILL"), ()) if jobs else ():
            # Not checked: a job may have ended since it was listed.
            subprocess.run(
                ["scancel", *how, *jobs], env={**os.environ, **self.environment}, timeout=LIMIT_S, check=False
            )

    def crash(self, node: str) -> None:
        """Kills a node with everything on it, its daemon, its steps and their tasks, by their process ids."""
        _cut_power(self._machines.pop(node))

    def start_node(self, node: str, *, hides: Path | None = None, size: str = "50%") -> None:
        """Starts a node, a crashed one too. hides: a folder that is empty and of this size there, which takes root."""
        daemon = ["slurmd", "-D", "-f", self.environment["SLURM_CONF"], "-N", node]
        if hides is not None:
            inside = f'mount -t tmpfs -o size={size} none "$0" && exec "$@"'
            daemon = ["unshare", "--mount", "sh", "-c", inside, str(hides), *daemon]
        self._hold(node, daemon)

    def repair(self) -> None:
        """Starts all nodes that crashed, and waits until all are idle."""
        for node in self.nodes:
            if node not in self._machines:
                self.start_node(node)
        self.wait_until_idle(len(self.nodes))

    def stop_controller(self) -> None:
        """Stops the controller as an administrator does, who updates it: it keeps what it knows."""
        self.run("scontrol", "shutdown", "slurmctld")
        _cut_power(self._machines.pop("slurmctld"), LIMIT_S)

    def start_controller(self) -> None:
        """Starts it, from its state where it has one."""
        self._hold("slurmctld", ["slurmctld", "-D", "-f", self.environment["SLURM_CONF"]])

    def start_munge(self) -> None:
        """Starts what signs the messages, with a key of this cluster alone."""
        words = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        places = [f"--{word}={self.folder / file}" for word, file in words.items()]
        # Forced: the folder is inside one that everybody may write to.
        self._hold("munged", ["munged", "--foreground", "--force", *places, f"--log-file={self.folder}/munged.log"])

    def stop(self) -> None:
        """Kills everything that runs, jobs too."""
        for name in list(self._machines)[::-1]:
            _cut_power(self._machines.pop(name))

    def wait_until_idle(self, count: int) -> None:
        """Waits until so many nodes are idle. Raises NoCluster with what the logs say."""
        give_up = time.monotonic() + LIMIT_S
        while True:
            done = subprocess.run(
                ["sinfo", "--noheader", "--partition=low", "--states=idle", "--format=%D"],
                env={**os.environ, **self.environment},
                capture_output=True,
                text=True,
                timeout=30,
            )
            if done.stdout.strip() == str(count):
                return
            ended = [name for name, machine in self._machines.items() if machine.poll() is not None]
            if ended or time.monotonic() > give_up:
                raise NoCluster(
                    f"{', '.join(ended) or 'the nodes'} of the cluster did not come up: {self._last_words()}"
                )
            time.sleep(POLL_S)

    def _last_words(self) -> str:
        words = []
        for log in sorted(self.folder.glob("*.log")):
            words += [f"{log.name}: {line}" for line in log.read_text("utf-8", "replace").splitlines()[-5:]]
        return "\n".join(words)

    def _hold(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.out.log").open("ab") as output:
            self._machines[name] = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("hold.py")), *command],
                env={**os.environ, **self.environment, "PATH": PATH},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def missing_programs() -> list[str]:
    """The programs of Slurm that are not installed here."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


@contextlib.contextmanager
def cluster(folder: Path, nodes: int = 4, *, requeue_delay: int = 10, node_timeout: int = 10) -> Iterator[Cluster]:
    """A cluster in an empty folder.

    requeue_delay: seconds that Slurm waits before it starts a requeued job again, 120 where nobody sets it.
    node_timeout: seconds after which a silent node is taken for dead, 300 where nobody sets it.

    Two partitions of all nodes: jobs of "high" preempt those of "low", which have 60 seconds to leave.
    Raises NoCluster where it cannot be had.
    """
    missing = missing_programs()
    if missing:
        raise NoCluster(f"{', '.join(missing)} of Slurm not installed")
    names = tuple(f"node{place + 1}" for place in range(nodes))
    _configure(folder, names, requeue_delay=requeue_delay, node_timeout=node_timeout)
    made = Cluster(folder, names, {"SLURM_CONF": str(folder / "slurm.conf")})
    try:
        made.start_munge()
        _wait_for(folder / "munge.sock")
        made.start_controller()
        for name in names:
            made.start_node(name)
        made.wait_until_idle(nodes)
        yield made
    finally:
        made.stop()


def _configure(folder: Path, names: tuple[str, ...], **seconds: int) -> None:
    for part in ("state", "spool", *(f"spool/{name}" for name in names)):
        (folder / part).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    ports = _free_ports(len(names) + 1)
    parts = f"RealMemory=20000 CPUs={CPUS_PER_NODE} Gres=gpu:h100:{GPUS_PER_NODE} State=UNKNOWN"
    nodes = [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.{place + 11} Port={ports[place + 1]} {parts}"
        for place, name in enumerate(names)
    ]
    version = _version()
    (folder / "slurm.conf").write_text(
        SLURM_CONF.format(
            host=host,
            port=ports[0],
            user=pwd.getpwuid(os.getuid()).pw_name,
            folder=folder,
            **seconds,
            first_job=random.randrange(1, 60000),
            # A word that moved in 23.02.
            preempt_signal=(
                "SlurmctldParameters=preempt_send_user_signal"
                if version < (23, 2)
                else "PreemptParameters=send_user_signal"
            ),
            nodes="\n".join(nodes),
        )
    )
    _make_gpus(folder, names)
    # "disabled" came with 23.02; the older plugin loads and touches nothing, since nothing asks it to.
    plugin = "cgroup/v1" if version < (23, 2) else "disabled"
    (folder / "cgroup.conf").write_text(f"CgroupPlugin={plugin}\n")


def _make_gpus(folder: Path, names: tuple[str, ...]) -> None:
    """Slurm wants to see files where the GPUs should be, and looks no further at them."""
    (folder / "dev").mkdir()
    for place in range(GPUS_PER_NODE):
        (folder / "dev" / f"gpu{place}").touch()
    last = GPUS_PER_NODE - 1
    lines = [f"NodeName={name} Name=gpu Type=h100 File={folder}/dev/gpu[0-{last}]" for name in names]
    (folder / "gres.conf").write_text("\n".join(lines) + "\n")


def _version() -> tuple[int, int]:
    text = subprocess.run(["slurmd", "-V"], env={"PATH": PATH}, capture_output=True, text=True).stdout
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has now; all are held until all are known, so none comes twice."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


def _wait_for(path: Path) -> None:
    give_up = time.monotonic() + LIMIT_S
    while not path.exists():
        if time.monotonic() > give_up:
            raise NoCluster(f"{path.name} did not come up")
        time.sleep(0.05)


def _cut_power(machine: "subprocess.Popen[bytes]", leave_s: float = 0.0) -> None:
    """Kills all of a machine; leave_s: how long its daemon may take to end by itself before."""
    assert machine.stdin is not None
    with contextlib.suppress(subprocess.TimeoutExpired):
        machine.wait(timeout=leave_s)
    machine.stdin.close()
    machine.wait(timeout=30)
