"""ssh among the hosts of one job, without a password and without a secret in the image.

Each host makes its keys when it needs them. Its sshd lets in the hosts of the job, by address (``mpi_trust``).

As a program (``python -m sagemaker_training.mpi_ssh``) it prepares a host for callers that start sshd and ssh
themselves, and prints the path of sshd's configuration.

Rules: docs/contract/mpi.md, rows mpi-ssh-*.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Callable, List, Optional

from sagemaker_training import configs, errors, layout, mpi_trust, process
from sagemaker_training.logs import logger

SSHD = "/usr/sbin/sshd"
PORT = 22

FOLDER = os.path.join(layout.base_dir, ".mpi")

# What a banner may take on a host that is busy, and the pause between two tries.
_BANNER_SECONDS = 10.0
_PAUSE_SECONDS = 0.5

_SSHD_CONFIG = """\
Port {port}
HostKey {folder}/host_key
PidFile none
LogLevel ERROR
UsePAM no
UseDNS no
PermitRootLogin prohibit-password
AuthenticationMethods publickey
AuthorizedKeysFile none
AuthorizedKeysCommand {python} -I -S {trust} {resources} %t %k
AuthorizedKeysCommandUser root
PermitUserEnvironment yes
SetEnv "PATH={path}" PMIX_HOSTNAME={host}
PrintMotd no
PrintLastLog no
MaxStartups 512
MaxSessions 512
"""

_SSH_CONFIG = """\
Host *
    User root
    Port {port}
    IdentityFile {folder}/client_key
    IdentitiesOnly yes
    BatchMode yes
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    ConnectTimeout 30
    ServerAliveInterval 15
    ServerAliveCountMax 4
"""


def check() -> None:
    """Raises ClientError, with what to install, where this host cannot serve or use ssh."""
    missing = [name for name in ("ssh", "ssh-keygen") if shutil.which(name) is None]
    if not os.path.exists(SSHD):
        missing.append(SSHD)
    if missing:
        raise errors.ClientError(
            f"MPI on several hosts needs {', '.join(missing)}, which this image does not have. "
            "Install ssh (Debian: apt-get install openssh-client openssh-server)."
        )
    if os.geteuid() != 0:
        raise errors.ClientError(
            "MPI on several hosts needs root, who alone can start sshd. Run the container as root."
        )


def private_folder() -> str:
    """The folder for what the MPI run of this host keeps to itself."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    os.chmod(FOLDER, 0o700)
    return FOLDER


def write_private(name: str, text: str) -> str:
    """Writes a file that nobody else can read. Returns its path."""
    path = os.path.join(private_folder(), name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path


def prepare_server() -> str:
    """Makes this host's key and sshd's configuration. Returns the path of the configuration.

    SageMaker's hosts may all call themselves the same (``aws``). Open MPI's daemon, which ssh starts, is told its
    host's own name, or its ranks would take those of the first host for neighbours with shared memory.
    """
    _make_key("host_key")
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    return write_private(
        "sshd_config",
        _SSHD_CONFIG.format(
            port=PORT,
            folder=FOLDER,
            python=sys.executable,
            trust=os.path.abspath(mpi_trust.__file__),
            resources=configs.config_path(layout.RESOURCE_CONFIG_FILE),
            path=os.environ.get("PATH", os.defpath),
            host=configs.read_resource_config()["current_host"],
        ),
    )


def prepare_client() -> str:
    """Makes this host's key as a client, and ssh's configuration. Returns the path of the configuration."""
    _make_key("client_key")
    return write_private("ssh_config", _SSH_CONFIG.format(port=PORT, folder=FOLDER))


def start_server() -> subprocess.Popen[bytes]:
    """Starts sshd and waits until it answers. Raises ClientError when it does not."""
    log = os.path.join(private_folder(), "sshd.log")
    server = process.start_service([SSHD, "-D", "-E", log, "-f", prepare_server()], stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + _BANNER_SECONDS
    while server.poll() is None:
        if _greets("127.0.0.1"):
            return server
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    with suppress(OSError), open(log, encoding="utf-8", errors="replace") as file:
        words = file.read().strip()
        raise errors.ClientError(f"sshd cannot serve on port {PORT} of this host: {words or 'it does not answer'}")
    raise errors.ClientError(f"sshd cannot serve on port {PORT} of this host, and says nothing about it.")


def wait_for_server(host: str, seconds: float, lost: Callable[[float], Optional[str]]) -> Optional[str]:
    """Waits until sshd of another host answers. Returns what happened to a host that was lost meanwhile.

    seconds: how long to wait at most. lost: waits for a number of seconds and says which host was lost, if any.
    Raises ClientError, naming the host, when it does not answer in time.
    """
    deadline = time.monotonic() + seconds
    announced = False
    while not _greets(host):
        if time.monotonic() >= deadline:
            raise errors.ClientError(
                f"Host {host} does not answer on port {PORT} (ssh) within {seconds:g} s: it did not start, failed "
                "before, or cannot be reached."
            )
        if not announced:
            logger.info("waiting for ssh on %s", host)
            announced = True
        what = lost(_PAUSE_SECONDS)
        if what is not None:
            return what
    return None


def _greets(host: str) -> bool:
    """Whether an ssh server says its name there."""
    try:
        with socket.create_connection((host, PORT), timeout=_BANNER_SECONDS) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _make_key(name: str) -> None:
    path = os.path.join(private_folder(), name)
    if os.path.exists(path):
        return
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise errors.ClientError(f"{path} cannot be made: {done.stdout.decode('utf-8', 'replace').strip()}")


def _prepare_account() -> None:
    """Gives root a key where it has none, and its sessions the variables of ``/etc/environment``."""
    folder = os.path.expanduser("~/.ssh")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    links: List[tuple[str, str]] = [
        (os.path.join(FOLDER, "client_key"), "id_ed25519"),
        ("/etc/environment", "environment"),
    ]
    for target, name in links:
        with suppress(FileExistsError):
            os.symlink(target, os.path.join(folder, name))


def main() -> None:
    config = prepare_server()
    prepare_client()
    _prepare_account()
    sys.stdout.write(config + "\n")


if __name__ == "__main__":
    main()
