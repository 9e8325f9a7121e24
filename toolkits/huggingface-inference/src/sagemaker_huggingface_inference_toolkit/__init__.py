"""Serves Hugging Face models inside a SageMaker inference container.

Importing the package itself needs neither transformers nor PyTorch nor anything else beyond the base toolkit.
"""

__version__ = "0.1.0"
