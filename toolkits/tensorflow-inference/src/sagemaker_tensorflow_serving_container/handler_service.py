"""Loads what a worker serves: the user's module, then the models, in this process or in a model server beside it.

Rules tf-load-*, tf-var-*.
"""

from __future__ import annotations

import atexit
import logging
import os
import tempfile
from collections.abc import Sequence

from sagemaker_inference import modules
from sagemaker_inference.service import Place
from sagemaker_inference.settings import Settings as BaseSettings

from sagemaker_tensorflow_serving_container import models, ports, universal, user_code
from sagemaker_tensorflow_serving_container.models import Model
from sagemaker_tensorflow_serving_container.ports import Pair
from sagemaker_tensorflow_serving_container.service import TensorFlowService
from sagemaker_tensorflow_serving_container.settings import Settings

logger = logging.getLogger(__name__)

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_THREADS = "OMP_NUM_THREADS"


def service(settings: BaseSettings, place: Place) -> TensorFlowService:
    """The service of one worker. Raises whatever keeps it from serving."""
    own = Settings.read(os.environ)
    _choose_gpu(place)
    # Before the models: the module may bring operations or Keras classes that they need.
    module, found = modules.load(universal.settings(settings, own, place.model_dir), place.model_dir)
    code = user_code.find(module)
    logger.info("%s: %s" if code else "%s%s", *((found.file, code.describe()) if code else ("no user module", "")))
    served = models.find(place.model_dir)
    default = models.default(served, own.default_model)
    from sagemaker_tensorflow_serving_container import model_server

    program = model_server.program()
    if program:
        return _beside(program, served, default, code, settings, own, place)
    return _inside(served, default, code, settings, own, place)


def _inside(
    served: Sequence[Model],
    default: Model,
    code: user_code.UserCode | None,
    settings: BaseSettings,
    own: Settings,
    place: Place,
) -> TensorFlowService:
    from sagemaker_tensorflow_serving_container.engine import Engine, config
    from sagemaker_tensorflow_serving_container.local import Local

    threads = own.intra_op or _share_of_cpus()
    engine = Engine(served, config(threads, own.inter_op, _gpu_share(own)), shared=not settings.multi_model)
    loopback = None
    if code:
        # Nobody else could post to it.
        from sagemaker_tensorflow_serving_container.loopback import Loopback

        loopback = Loopback(engine, _loopback_port(settings, place))
    return TensorFlowService(Local(engine, loopback), default.name, code, settings, engine)


def _beside(
    program: str,
    served: Sequence[Model],
    default: Model,
    code: user_code.UserCode | None,
    settings: BaseSettings,
    own: Settings,
    place: Place,
) -> TensorFlowService:
    from sagemaker_tensorflow_serving_container import keras, model_server

    instances = own.instances or 1
    owner = settings.multi_model or place.worker < instances
    pair = _hold(settings) if settings.multi_model else ports.pair(settings.safe_port_range, place.worker % instances)
    server = model_server.ModelServer(pair, served, own.wait_seconds, settings.timeout_seconds)
    if owner:
        folder = tempfile.mkdtemp(prefix="model-server-")
        model_server.write_files(folder, keras.exported(served, folder), own)
        server.start(model_server.command(program, pair, folder, own, settings.timeout_seconds, _gpu_share(own)))
        atexit.register(server.close)
    server.wait()
    return TensorFlowService(server, default.name, code, settings)


def _share_of_cpus() -> int:
    """This worker's part of the CPUs, which the supervisor has put where OpenMP looks; 0: TensorFlow's own choice."""
    given = os.environ.get(_THREADS, "")
    return int(given) if given.isdecimal() else 0


def _loopback_port(settings: BaseSettings, place: Place) -> int:
    """A port of this worker's own; that of another one where workers outnumber the pairs of the range."""
    if settings.multi_model:
        return _hold(settings).rest
    return ports.pair(settings.safe_port_range, place.worker % ports.count(settings.safe_port_range)).rest


_held: list[ports.Held] = []


def _hold(settings: BaseSettings) -> Pair:
    """Ports of this model's own among those of all loaded models, for the life of this process."""
    _held.append(ports.hold_first(ports.of_models(settings.safe_port_range)))
    return _held[-1].ports


def _choose_gpu(place: Place) -> None:
    """Shows this worker its own GPU only, among those that the container was given."""
    if place.gpu_id is None:
        return
    visible = [name.strip() for name in os.environ.get(_VISIBLE, "").split(",") if name.strip()]
    os.environ[_VISIBLE] = visible[place.gpu_id] if place.gpu_id < len(visible) else str(place.gpu_id)


def _gpu_share(own: Settings) -> float | None:
    """Each instance's part of its GPU's memory; None with one instance, which takes what it needs."""
    if not own.instances or own.instances == 1:
        return None
    return (1 - own.gpu_margin) / own.instances
