"""Edits one module of a toolkit inside an image, as a commit to the toolkit would.

edit.py MODULE << 'EDIT'
the lines to replace, as they stand, found exactly once
=======
the lines that take their place
EDIT

A module of the training toolkit may leave out the package's name. It does the same to PyTorch, as a bad patch would.
"""

import importlib.util
import pathlib
import py_compile
import sys


def main():
    name = sys.argv[1] if sys.argv[1].startswith(("sagemaker_", "torch.")) else "sagemaker_training." + sys.argv[1]
    old, _, new = sys.stdin.read().partition("=======\n")
    spec = importlib.util.find_spec(name)
    path = pathlib.Path(spec.origin)
    source = path.read_text()
    if source.count(old) != 1:
        sys.exit(
            f"{name} has these lines {source.count(old)} times, not once; adapt this mutant to the toolkit:\n{old}"
        )
    path.write_text(source.replace(old, new))
    # The image's bytecode is never compared with its source: it has to be made again.
    py_compile.compile(str(path), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


main()
