"""Slipway: deep-learning container images for Amazon SageMaker, built, proved and released."""

__version__ = "0.1.0"
