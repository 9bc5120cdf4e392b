"""What a worker writes to its standard output and error: a file that stays small, and its end.

A pipe leads it into a thread of this process: so the last words of a worker that died are here,
and one that writes without end fills neither the disk nor a terminal.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from datetime import UTC, datetime
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from sweeper.links import move_inside, open_inside

# of the file; one more as large holds what was written before
MOST_BYTES = 1 << 20
# kept to tell of; where a worker was is told from the innermost call on, in many lines
_END_BYTES = 1 << 14
_TOLD = 3000
_TRACE = re.compile(r"^(Fatal Python error|(Current t|T)hread 0x)", re.MULTILINE)
_PIPE_BYTES = 1 << 16
# how long a dead worker's last words may take to arrive
_LAST_WORDS_S = 1.0

_log = logging.getLogger("sweeper")


class WorkerLog:
    """The log of one worker, from its start to its end, in a file that several may share.

    `writer` is for the worker; this process must close its own when the worker has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        reader, self.writer = Pipe(duplex=False)
        self._end = bytearray()
        self._is_written = True
        # nobody waits for it: a process of the worker's own may keep the pipe open for good
        self._thread = threading.Thread(target=self._copy, args=(reader,), daemon=True)
        self._thread.start()

    def end(self) -> str:
        """The last words of the worker, which has ended; where it was, if that is among them."""
        self._thread.join(_LAST_WORDS_S)
        text = bytes(self._end).decode(errors="replace").strip()
        trace = _TRACE.search(text)
        return text[-_TOLD:] if trace is None else text[trace.start() :][:_TOLD]

    def _copy(self, reader: Connection) -> None:
        self._append(f"-- a worker starts, {datetime.now(UTC):%F %T} UTC --\n".encode())
        with reader:
            while written := os.read(reader.fileno(), _PIPE_BYTES):
                self._end += written
                del self._end[:-_END_BYTES]
                self._append(written)

    def _append(self, written: bytes) -> None:
        if not self._is_written:
            return
        try:
            root = self.path.parent.parent
            with open_inside(root, self.path, "ab") as file:
                size = file.tell() + file.write(written)
            if size > MOST_BYTES:
                move_inside(root, self.path, self.path.with_suffix(".before.log"))
        except OSError as error:  # a worker must not wait for room on the disk
            self._is_written = False
            _log.warning("%s is not written any more: %s", self.path, error.strerror)
