"""Many models in one container: a router in front of single-model units.

Each model has processes of its own (``unit``), so that its code, its packages and its end concern no other model. The
router holds no model and runs no user code: whatever the models do, it answers.

``registry`` knows the models and the rules of loading and unloading, ``model`` is the life of one, ``unit`` one start
of its processes, ``link`` a connection to them, ``proxy`` passes requests on, ``app`` is the HTTP surface, ``router``
the process.
"""

from __future__ import annotations

from sagemaker_inference.settings import Settings


def serve(settings: Settings, handler_service: str) -> int:
    """Runs the router until it is told to stop; the exit status of the process."""
    from sagemaker_inference.multi_model import router

    return router.serve(settings, handler_service)
