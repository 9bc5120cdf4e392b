"""Which functions named by a file from elsewhere may run without `--trust-code`.

These are functions of known packages, and those whose recorded source the user has locally.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from sweeper.config.user_source import MAIN, is_module_in, source_digests

# a base directory without modules, so that only installed modules are imported
NOWHERE = Path(os.devnull)
TRUST = "if you trust where it comes from, add --trust-code (in Python trust_code=True)"
# modules of known packages whose functions and classes only compute
_KNOWN = {
    "equinox": ("equinox.nn.",),
    "optax": ("optax.",),
    "sweeper": ("sweeper.models.", "sweeper.programs."),
}


def is_known(function: str, base_dir: Path = NOWHERE) -> bool:
    """Whether `module:function` is of Equinox, Optax or sweeper, and only computes.

    These are layers of Equinox, functions of Optax, and models and programs of sweeper. Other
    functions of these packages, some of which write files, do not count, and neither does anything
    that such a module merely imports. No file in `base_dir` may shadow the package.
    """
    module, _, name = function.partition(":")
    root = module.partition(".")[0]
    if root not in _KNOWN or is_module_in(root, base_dir):
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
    """Whether the files in `base_dir` that define `function` have the recorded digests.

    Installed modules never count: the author of the record knows their source as well.
    """
    module = function.partition(":")[0]
    if module == MAIN:
        spec = getattr(sys.modules[MAIN], "__spec__", None)
        is_ours = spec is not None and spec.name.partition(".")[0] == "sweeper"
        found = {} if is_ours else source_digests(function, base_dir)
        # records of earlier versions have no values
        both = found.keys() & digests.keys()
        return function.replace(":", ".") in both and all(
            found[one] == digests[one] for one in both
        )
    if not is_module_in(module.partition(".")[0], base_dir):
        return False
    found = source_digests(function, base_dir)
    return bool(found) and all(digests.get(name) == digest for name, digest in found.items())
