"""One supervised model on a Unix socket, for the router of a multi-model endpoint.

    python -m sagemaker_inference.server.unit --socket PATH --name NAME --model-dir DIR --handler MODULE --failure FILE

HTTP as on a port: ``/ping`` and ``/invocations``. SIGTERM drains it. When it cannot serve it ends with a status of
``exits``, the reason is the last line on stderr, and FILE gets it as JSON: ``message``, ``status``, ``out_of_memory``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence

from sagemaker_inference import model_server
from sagemaker_inference.logging import configure_logger
from sagemaker_inference.server import children, exits
from sagemaker_inference.server.pool import Plan
from sagemaker_inference.settings import Settings

_BACKLOG = 512


def main(argv: Sequence[str]) -> int:
    """Runs the unit; its exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(exits.STOPPED))
    # Without its router nobody could reach the model, or end it.
    children.die_with_parent(os.getppid())
    given = _parse(argv)
    settings = Settings.read()
    configure_logger(settings.log_level, settings.log_format, model=given.name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(given.socket)
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    plan = Plan(settings, given.name, given.model_dir, given.handler)
    packages = os.path.join(os.path.dirname(os.path.abspath(given.socket)), "packages")
    status, last_words = model_server.run(plan, listener, packages)
    if status != exits.STOPPED:
        _report(given.failure, status, last_words)
    return status


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sagemaker_inference.server.unit")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--handler", default=model_server.DEFAULT_HANDLER_SERVICE)
    parser.add_argument("--failure", default="")
    return parser.parse_args(argv)


def _report(path: str, status: int, last_words: str) -> None:
    reason = last_words.strip().rpartition("\n")[2]
    if path and reason:
        temporary = f"{path}.part"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"message": reason, "status": status, "out_of_memory": _is_memory(reason)}, file)
        os.replace(temporary, path)
    if last_words:
        sys.stderr.write(last_words.rstrip("\n") + "\n")


def _is_memory(reason: str) -> bool:
    return reason.startswith("MemoryError") or "out of memory" in reason.lower() or "RESOURCE_EXHAUSTED" in reason


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
