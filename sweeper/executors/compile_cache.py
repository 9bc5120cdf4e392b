"""Compiled programs on disk, each with a digest: damaged ones are compiled again.

JAX runs cached programs unchecked, and never replaces an entry that it cannot read. This module
wraps JAX's own file cache, so that JAX_COMPILATION_CACHE_MAX_SIZE still applies.
"""

from __future__ import annotations

import logging
import platform
import sys
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from sweeper.executors.private_apis import current_cache, file_cache, replace_cache
from sweeper.scheduler.signature import short_hash
from sweeper.user_dirs import own_directory

_DIGEST_BYTES = 16
_SUFFIXES = ("-cache", "-atime")  # suffixes of the files of an entry
# part of the key: for JAX's own cache in the same directory, an entry with a digest is damaged
_CHECKED = "-checked"
_log = logging.getLogger("sweeper")


class CheckedCache:
    """JAX's cache in a directory, which only returns entries that are intact.

    Disk errors never affect the program that is compiled: the entry is then missing or not kept.
    """

    def __init__(self, path: Path) -> None:
        self._files = file_cache(path)
        self._path = path  # JAX logs this name
        self._has_warned = False

    def get(self, key: str) -> bytes | None:
        """The entry of `key`; None if there is none or it is damaged."""
        try:
            found = self._files.get(f"{key}{_CHECKED}")
        except Exception as error:  # errors of a broken disk, or of a lock that is held too long
            _log.info("compiling again, since the cache entry cannot be read: %s", error)
            return None
        if found is None:
            return None
        digest, content = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
        if digest == _digest(key, content):
            return content
        _log.info("compiling again, since the cache entry is damaged: %s", key)
        self._remove(key)
        return None

    def put(self, key: str, value: bytes) -> None:
        """Write an entry if possible, replacing one that could not be used."""
        try:
            self._remove(key)
            self._files.put(f"{key}{_CHECKED}", _digest(key, value) + value)
        except Exception as error:
            if not self._has_warned:
                message = "compiled programs are not cached in %s: %s; the study continues anyway"
                _log.warning(message, self._path, error)
            self._has_warned = True

    def _remove(self, key: str) -> None:
        for suffix in _SUFFIXES:
            with suppress(OSError):  # the cache is read-only: the entry stays, but is not used
                (self._path / f"{key}{_CHECKED}{suffix}").unlink()


def _digest(key: str, content: bytes) -> bytes:
    digest = blake2b(key.encode(), digest_size=_DIGEST_BYTES)
    digest.update(content)
    return digest.digest()


def cache_directory() -> Path | None:
    """The directory of compiled programs; None to run without a cache.

    One directory per kind of machine, since several machines may share a home directory, and a
    program compiled for one processor may use instructions that another lacks.
    """
    return own_directory(f"xla-{short_hash(platform.machine(), processor())}")


@cache
def processor() -> str:
    """What identifies this kind of processor, as far as the system says."""
    try:
        return lines_on_processor(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        if sys.platform == "linux":  # XLA reads it to choose kernels
            _log.warning(
                "/proc/cpuinfo cannot be read, so the last digits of rows may differ from those of "
                "runs in which it can"
            )
        return platform.processor()


def lines_on_processor(cpuinfo: str) -> str:
    """The lines of /proc/cpuinfo on a processor's model and instructions, each once."""
    # of x86, then of ARM
    about = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "\n".join(sorted({line for line in cpuinfo.splitlines() if line.startswith(about)}))


def use_cache(path: Path | None) -> None:
    """Let JAX keep compiled programs in `path`; if None, where JAX's own settings say."""
    current = current_cache()
    if path is not None and isinstance(current, CheckedCache) and current._path == path:
        return
    cache = None
    if path is not None:
        with suppress(OSError):  # it may have been removed
            cache = CheckedCache(path)
    replace_cache(cache)
