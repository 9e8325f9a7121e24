"""Runs PyTorch scripts inside a SageMaker training container.

Importing the package, or any module in it, needs neither PyTorch nor anything else beyond the base toolkit.
"""

__version__ = "0.1.0"
