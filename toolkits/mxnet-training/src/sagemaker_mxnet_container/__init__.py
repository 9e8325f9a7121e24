"""Runs MXNet scripts inside a SageMaker training container, on one host or many."""

__version__ = "0.1.0"
