"""Serves a user's model inside a SageMaker hosting container.

Importing the package, or any module in it, needs the standard library only.
"""

__version__ = "0.1.0"
