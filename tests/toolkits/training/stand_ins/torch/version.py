__version__ = "9.8.7+cpu"
