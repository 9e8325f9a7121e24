"""Tells sshd whom to let in: the hosts of this job, by their addresses, with whatever key they come.

sshd runs this file for each key that a client offers (``AuthorizedKeysCommand``), with the path of
``resourceconfig.json``, the key's type and the key. So no key has to be the same on all hosts, and no secret has to be
in an image. Stands alone: it is started without the interpreter's packages.
"""

import json
import socket
import sys
from typing import Iterable, Set


def resolve(hosts: Iterable[str]) -> Set[str]:
    """Addresses of hosts by their names, and this host's own."""
    found = {"127.0.0.1", "::1"}
    for host in hosts:
        try:
            found.update(str(entry[4][0]) for entry in socket.getaddrinfo(host, None))
        except OSError:
            continue  # A host that has no address cannot come from it.
    return found


def main() -> None:
    path, kind, key = sys.argv[1:4]
    with open(path, encoding="utf-8-sig") as file:
        hosts = json.load(file)["hosts"]
    sys.stdout.write(f'from="{",".join(sorted(resolve(hosts)))}" {kind} {key}\n')


if __name__ == "__main__":
    main()
