"""Which functions that a file from elsewhere names run without being trusted.

They are those of known packages, and those whose source the user has at hand, as it is recorded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from sweeper.config.user_source import MAIN, is_beside, source_digests

# a base directory without any modules: what is imported for it is installed
NOWHERE = Path(os.devnull)
TRUST = "if you trust where it comes from, add --trust-code (in Python trust_code=True)"
# of each known package, the modules whose functions and classes only compute
_KNOWN = {
    "equinox": ("equinox.nn.",),
    "optax": ("optax.",),
    "sweeper": ("sweeper.models.", "sweeper.programs."),
}


def is_known(function: str, base_dir: Path = NOWHERE) -> bool:
    """Whether `module:function` is a layer of Equinox, a function of Optax or a program of sweeper.

    Other functions of these packages, some of which write files, are not, and neither is anything
    that such a module has merely imported. No file in `base_dir` may stand in for the package.
    """
    module, _, name = function.partition(":")
    root = module.partition(".")[0]
    if root not in _KNOWN or is_beside(root, base_dir):
        return False
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return False
    if not f"{getattr(found, '__module__', None)}.".startswith(_KNOWN[root]):
        return False
    return root != "sweeper" or (isinstance(found, type) and _computes(found))


def _computes(found: type) -> bool:
    """Whether a class is a model or a program."""
    return any({"__call__", "step"} & vars(one).keys() for one in found.__mro__)


def is_at_hand(function: str, base_dir: Path, digests: Mapping[str, str]) -> bool:
    """Whether the files in `base_dir` that `function` comes from have the recorded digests.

    Those of installed modules never count: the author of the record knows their source as well.
    """
    module = function.partition(":")[0]
    if module == MAIN:
        spec = getattr(sys.modules[MAIN], "__spec__", None)
        is_ours = spec is not None and spec.name.partition(".")[0] == "sweeper"
        found = {} if is_ours else source_digests(function, base_dir)
        # records of earlier versions lack values
        both = found.keys() & digests.keys()
        return function.replace(":", ".") in both and all(
            found[one] == digests[one] for one in both
        )
    if not is_beside(module.partition(".")[0], base_dir):
        return False
    found = source_digests(function, base_dir)
    return bool(found) and all(digests.get(name) == digest for name, digest in found.items())
