"""Breaks a framework on purpose: runs the mutant that SMOKE_MUTANT names as soon as the module it breaks is loaded.

Python imports a module of this name when it starts. `torch-training.step` breaks torch for the step training.step.
"""

import importlib.abc
import importlib.machinery
import os
import runpy
import sys

MUTANT = os.environ.get("SMOKE_MUTANT", "")
HERE = os.path.dirname(os.path.abspath(__file__))


class Breaking(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module as ever, then runs the mutant."""

    def __init__(self, loader=None):
        self.loader = loader

    def find_spec(self, name, path, target=None):
        if name != MUTANT.partition("-")[0]:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = Breaking(spec.loader)
        return spec

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        runpy.run_path(os.path.join(HERE, MUTANT + ".py"))


if MUTANT:
    sys.meta_path.insert(0, Breaking())
