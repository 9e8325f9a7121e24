"""As much of PyTorch as the launchers touch, for tests on machines without it."""
