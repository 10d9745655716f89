"""A Slurm cluster of two nodes on one machine: Debian's packages, and each node in its own network namespace.

A node has its own address, host name and link to a bridge. So a node that vanishes is a link that is down: nothing is
reset, and the others hear nothing. Needs root, and writes outside its folder only `/etc/netns/proof-*/hosts`.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge", "iproute2")
NODES = {"n1": "10.77.0.11", "n2": "10.77.0.12"}
CONTROLLER = "10.77.0.1"
BRIDGE = "proofslurm"
CONF = """\
ClusterName=proof
SlurmctldHost={host}({controller})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SlurmdTimeout=20
ReturnToService=2
MinJobAge=36000
MpiDefault=none
{nodes}
PartitionName=proof Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def command(*words: str | Path) -> str:
    """Run a command; its standard output. Raises `CalledProcessError` where it fails."""
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def install() -> None:
    """Install what is missing of Slurm. Raises `CalledProcessError` where apt-get cannot."""
    if not all(shutil.which(name) for name in ("slurmctld", "slurmd", "munged", "sbatch", "ip")):
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        command("apt-get", "update")
        command("apt-get", "install", "-y", "--no-install-recommends", *PACKAGES)


class Cluster:
    """The daemons, from `with` to its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Cluster":
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._end()

    def _start(self) -> None:
        munge = self.folder / "munge"
        for name in ("munge", "state", "spool-n1", "spool-n2"):
            (self.folder / name).mkdir(parents=True)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o400)
        nodes = "\n".join(f"NodeName={name} NodeAddr={address} NodeHostname={name} CPUs=1"
                          for name, address in NODES.items())
        conf = self.folder / "slurm.conf"
        conf.write_text(CONF.format(host=socket.gethostname(), controller=CONTROLLER, folder=self.folder, nodes=nodes))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupMountpoint=/nowhere\n")
        # Read by every Slurm command, and by jobs, which take over this environment.
        os.environ["SLURM_CONF"] = str(conf)
        command("ip", "link", "add", BRIDGE, "type", "bridge")
        command("ip", "addr", "add", f"{CONTROLLER}/24", "dev", BRIDGE)
        command("ip", "link", "set", BRIDGE, "up")
        for name, address in NODES.items():
            self._connect(name, address)
        self._daemon("munged", "munged", "--foreground", "--force", f"--key-file={munge}/key",
                     f"--socket={munge}/socket", f"--pid-file={munge}/pid", f"--seed-file={munge}/seed",
                     f"--log-file={munge}/log")
        self._daemon("slurmctld", "slurmctld", "-D", "-i")
        for name in NODES:
            self._daemon(name, "ip", "netns", "exec", f"proof-{name}", "unshare", "-u", "sh", "-c",
                         f"hostname {name}; exec slurmd -D -N {name}")
        for _ in range(120):
            time.sleep(1)
            if self.nodes() == ["idle", "idle"]:
                return
        raise RuntimeError(f"the nodes did not start; see the logs in {self.folder}")

    @staticmethod
    def _connect(name: str, address: str) -> None:
        """A namespace with a link to the bridge, and the names of all nodes."""
        space = f"proof-{name}"
        hosts = Path("/etc/netns", space, "hosts")
        hosts.parent.mkdir(parents=True, exist_ok=True)
        hosts.write_text("127.0.0.1 localhost\n" + f"{CONTROLLER} {socket.gethostname()}\n"
                         + "".join(f"{other} {key}\n" for key, other in NODES.items()))
        command("ip", "netns", "add", space)
        command("ip", "link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
        command("ip", "link", "set", space, "master", BRIDGE, "up")
        inside = ("ip", "-n", space)
        command(*inside, "addr", "add", f"{address}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            command(*inside, "link", "set", link, "up")

    def _daemon(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.out").open("wb") as out:
            self._daemons.append(subprocess.Popen(words, stdout=out, stderr=out, start_new_session=True))

    def _end(self) -> None:
        # Jobs first: a step's processes belong to no daemon of ours.
        subprocess.run(["scancel", "--full", "--signal=KILL", "--user=root"], capture_output=True, check=False)
        time.sleep(2)
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons:
            daemon.wait()
        for space in (f"proof-{name}" for name in NODES):
            subprocess.run(["ip", "link", "del", space], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
            shutil.rmtree(f"/etc/netns/{space}", ignore_errors=True)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)

    def nodes(self) -> list[str]:
        """State of each node, in Slurm's words."""
        done = subprocess.run(["sinfo", "-h", "-N", "-o", "%t"], capture_output=True, text=True, check=False)
        return done.stdout.split()

    @staticmethod
    def link(node: str, state: str) -> None:
        """Set the link of a node ``up`` or ``down``."""
        command("ip", "link", "set", f"proof-{node}", state)

    @staticmethod
    def job(number: str) -> dict[str, str]:
        """What Slurm says about a job: its `JobState`, `Restarts`, `ExitCode` and more."""
        return dict(re.findall(r"(\w+)=(\S*)", command("scontrol", "show", "job", number, "--oneliner")))
