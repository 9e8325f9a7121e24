"""Image -> verdict: the checks of tests/contract, run over one image and filed under its config digest.

contract   which checks there are for a kind of image: id, reason, fix, what each needs
suite      one hash over everything that decides a verdict
target     what is to be verified: an image of the matrix, or any reference of the engine
runner     pytest over one image, its outcomes gathered as results
plugin     how pytest runs a contract: only the checks asked for, in order, blocked where what they need failed
probing    the smoke steps' probe, run in an image or beside a framework on this host
smoke      the smoke steps over one image, filed
page       verdicts as one HTML file
report     a verdict as table, JUnit, JSON; the register as a document
"""

from slipway.verify.suite import smoke_hash, suite_hash

__all__ = ["smoke_hash", "suite_hash"]
