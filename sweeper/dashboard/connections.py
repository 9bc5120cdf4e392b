"""Limits what clients can use of the page's server: connections, and time for each of them.

uvicorn waits forever for the rest of a request. A client that opens many connections and sends half
a request on each would use up the server's file descriptors.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, ClassVar, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None

# browsers open at most six connections to a server
MAX_CONNECTIONS = 100
# connections accepted before any of them is handled, and those that the system queues until then
_AT_ONCE = 16
_WAITING = 1024


class BoundedProtocol(H11Protocol):
    """A connection that ends if no complete request arrives in time, or if its answer is not read.

    If there are more than `MAX_CONNECTIONS`, the one that has waited longest for a request ends.
    `request_s` is the time for a complete request after the connection was opened, or after the
    previous answer.
    """

    request_s: ClassVar[float] = 10.0
    answer_s: ClassVar[float] = 120.0
    since: float
    _timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start, and end another connection if there are too many."""
        self.since = self.loop.time()
        self._timer = self.loop.call_later(self.request_s, self._check)
        super().connection_made(cast(asyncio.Transport, transport))
        if len(self.connections) > most_connections():
            others = (one for one in self.connections if isinstance(one, BoundedProtocol))
            waiting = (one for one in others if not one.is_answering)
            min(waiting, key=lambda one: one.since, default=self).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.since = self.loop.time()
        super().on_response_complete()

    def abort(self) -> None:
        """End at once, whatever has not been sent yet."""
        self.connections.discard(self)
        self.transport.abort()

    @property
    def is_answering(self) -> bool:
        """Whether a request has arrived whose answer is not complete yet."""
        has_answered = self.cycle is None or self.cycle.response_complete
        return not has_answered or self.transport.get_write_buffer_size() > 0

    def _check(self) -> None:
        limit_s = self.answer_s if self.is_answering else self.request_s
        left_s = self.since + limit_s - self.loop.time()
        if left_s <= 0:
            self.abort()
        else:
            self._timer = self.loop.call_later(min(left_s, self.request_s), self._check)


def most_connections() -> int:
    """How many connections may be open, given the file descriptors of this process."""
    if resource is None:
        return MAX_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files < 0 else max(4, min(MAX_CONNECTIONS, files // 4))


class BoundedServer(uvicorn.Server):
    """Serves an application with bounded connections."""

    def __init__(self, app: Any, protocol: type[BoundedProtocol] = BoundedProtocol) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                loop="asyncio",
                log_level="error",  # clients can cause any number of warnings
                access_log=False,
                ws="none",
                lifespan="off",
                backlog=_AT_ONCE,
                timeout_graceful_shutdown=1,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_WAITING)
