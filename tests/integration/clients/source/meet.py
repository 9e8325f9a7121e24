"""Two hosts, without any launcher: each greets the other by its name, and ends once both have done so."""

import json
import os
import socket
from pathlib import Path

hosts = json.loads(os.environ["SM_HOSTS"])
own = os.environ["SM_CURRENT_HOST"]
(other,) = (host for host in hosts if host != own)
if own == hosts[0]:
    with socket.create_server(("", 7000)) as server:
        connection, _ = server.accept()
else:
    while True:
        try:
            connection = socket.create_connection((other, 7000), timeout=60)
            break
        except OSError:  # not listening yet
            pass
with connection, connection.makefile("rw") as line:
    print(own, file=line, flush=True)
    greeted = line.readline().strip()
    Path(f"/opt/ml/model/met-{own[:6]}").touch()
    print(f"{own[:6]} of {len(hosts)} met {greeted[:6]}", flush=True)
    # The first host to end ends the job.
    print("goodbye", file=line, flush=True)
    assert line.readline() == "goodbye\n"
