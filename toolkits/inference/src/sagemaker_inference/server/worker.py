"""A worker process: loads the model once, then answers on the connections that the supervisor passes to it.

It is started as a program of its own, with the board and a channel to the supervisor as open descriptors, so that its
interpreter may be another one: that of the model's requirements.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import logging
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

from sagemaker_inference import service
from sagemaker_inference.logging import configure_logger
from sagemaker_inference.server import board, channel, children, metrics
from sagemaker_inference.service import Place, Service
from sagemaker_inference.settings import Settings

logger = logging.getLogger("sagemaker_inference.server")


def main(argv: Sequence[str]) -> int:
    """Loads, tells the supervisor, serves. Ends with 1 when the model cannot be loaded."""
    for descriptor in (channel.BOARD_DESCRIPTOR, channel.CHANNEL_DESCRIPTOR):
        # For this process alone: whoever else held the channel would hide its end.
        os.set_inheritable(descriptor, False)
    link = socket.socket(fileno=channel.CHANNEL_DESCRIPTOR)
    children.die_with_parent(channel.peer(link))
    _prepare_interpreter()
    place, handler_service = Place(**json.loads(argv[0])), argv[1]
    try:
        settings = Settings.read()
        configure_logger(
            settings.log_level, settings.log_format, model=place.model_name if settings.multi_model else ""
        )
        # Before the model, so that the first request does not wait for it.
        from sagemaker_inference.server.serving import Serving

        shared = board.Board(channel.BOARD_DESCRIPTOR)
        loaded = _load(settings, place, handler_service, shared)
    except BaseException as error:
        # SystemExit too: whatever ended the load, the supervisor decides what follows, and says it last.
        _report(link, error)
    # What is there now stays, once the load's own leftovers are gone: what was imported before is not looked at.
    gc.collect()
    gc.freeze()
    if argv[2:] == ["template"]:
        from sagemaker_inference.server import template

        template.stand(link, lambda own, number: Serving(loaded, own, shared, number, settings).run())
    Serving(loaded, link, shared, place.worker, settings).run()
    return 0


def _load(settings: Settings, place: Place, handler_service: str, shared: board.Board) -> Service:
    started = time.monotonic()
    loaded = service.load_service(settings, place, handler_service)
    seconds = time.monotonic() - started
    metrics.Recorder(shared, place.worker).loaded(seconds)
    logger.info("worker %d: loaded in %.2f s", place.worker, seconds)
    return loaded


def _report(link: socket.socket, error: BaseException) -> NoReturn:
    text = "".join(traceback.format_exception(error))
    link.send(channel.FAILED + text.encode("utf-8", "replace")[-channel.FAILURE_BYTES :])
    logging.shutdown()
    sys.stdout.flush()
    os._exit(1)


def _prepare_interpreter() -> None:
    # ``-m`` puts the working directory first, where a user's file could stand for a module of ours.
    if sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]
    faulthandler.enable()
    faulthandler.register(channel.DUMP_SIGNAL, all_threads=True, chain=False)
    # Interrupts are for the supervisor, which tells us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
