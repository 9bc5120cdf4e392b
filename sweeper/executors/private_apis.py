"""Private parts of JAX, loky and multiprocessing that have no public alternatives.

If an upgrade removes one, `tests/test_private_apis.py` fails. Libraries are imported inside the
functions, because a worker uses this module before it may import JAX.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from queue import Empty
from threading import Thread
from traceback import walk_tb
from typing import Any

_XLA_THREAD = "tf_XLAEigen"  # XLA's name for each thread that runs parts of a program on a CPU


def file_cache(path: Path) -> Any:
    """JAX's own cache of compiled programs in a directory, limited to JAX's configured size.

    Raises:
        OSError: the directory cannot be created.
    """
    import jax
    from jax._src.lru_cache import LRUCache

    size: int = jax.config.values.get("jax_compilation_cache_max_size", -1)
    return LRUCache(str(path), max_size=size)


def current_cache() -> Any:
    """The cache that JAX uses for compiled programs; None if it has not used any yet."""
    from jax._src import compilation_cache

    return compilation_cache._cache


def replace_cache(cache: Any) -> None:
    """Let JAX keep compiled programs in `cache`; if None, where its own settings say."""
    from jax._src import compilation_cache

    compilation_cache.reset_cache()  # JAX keeps using its first directory
    compilation_cache._cache = cache


def has_open_devices() -> bool:
    """Whether JAX has opened its devices; a public function would open them."""
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()


def is_invalid_jax_setting(error: ValueError) -> bool:
    """Whether JAX could not be imported because an environment variable has an invalid value."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__") == "jax._src.config"


def count_xla_threads() -> int | None:
    """How many threads XLA has started on the CPU; None if the system does not list them."""
    names: list[str] = []
    for thread in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # a thread that has just ended
            names.append(thread.read_text().strip())
    return names.count(_XLA_THREAD) or None


def let_worker_memory_grow() -> None:
    """Stop loky from ending this worker process when its memory grows."""
    from joblib.externals.loky import process_executor

    process_executor._USE_PSUTIL = False


def start_single_worker(pool: Any) -> Any:
    """Start the process of a loky pool with one worker before its first call, and return it."""
    pool._adjust_process_count()
    (process,) = pool._processes.values()
    return process


def result_queue(pool: Any) -> Any:
    """The queue in which a loky pool gets results; the pool forgets it when it ends."""
    return pool._result_queue


def manager_thread(pool: Any) -> Thread | None:
    """The thread of a loky pool that sends calls to workers; None before the first call."""
    return pool._executor_manager_thread


def drop_waiting_calls(pool: Any) -> None:
    """Remove the calls that a loky pool has not sent to a worker yet."""
    with suppress(Empty):
        while True:
            pool._work_ids.get_nowait()


def close_writer(queue: Any) -> None:
    """Close the writing end of a multiprocessing queue, so that its thread does not do it again.

    By then, the operating system may have given the same handle to another file.
    """
    connection = queue._writer
    handle, connection._handle = connection._handle, None
    if handle is not None:
        os.close(handle)
