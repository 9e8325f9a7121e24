"""Runs a user's script inside a SageMaker training container.

Importing the package, or any module in it, needs the standard library only.
"""

__version__ = "0.1.0"
