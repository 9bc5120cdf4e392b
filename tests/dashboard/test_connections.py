"""Clients that send half a request, or read no answer, do not block others from the page."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sweeper.dashboard.connections import MAX_CONNECTIONS, BoundedProtocol, BoundedServer
from sweeper.dashboard.server import listen

HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "
LARGE = 32 << 20


class Impatient(BoundedProtocol):
    request_s = 0.5
    answer_s = 1.0


async def small(_: Request) -> Response:
    return PlainTextResponse("here")


async def large(_: Request) -> Response:
    return PlainTextResponse("x" * LARGE)


def serving(protocol: type[BoundedProtocol]) -> Iterator[int]:
    server = BoundedServer(Starlette(routes=[Route("/", small), Route("/large", large)]), protocol)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive(), "the server has not ended"


@pytest.fixture
def port() -> Iterator[int]:
    """A server with the usual limits."""
    yield from serving(BoundedProtocol)


@pytest.fixture
def impatient() -> Iterator[int]:
    """A server with short limits."""
    yield from serving(Impatient)


def answer(port: int) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_of_too_many_connections_those_that_wait_longest_end(port: int) -> None:
    with ExitStack() as stack:
        clients = list[socket.socket]()
        for _ in range(3 * MAX_CONNECTIONS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(HALF)
            clients.append(client)
        began = time.monotonic()
        assert answer(port) == "here"
        assert time.monotonic() - began < 1
        time.sleep(0.1)
        still = [is_open(client) for client in clients]
        assert 0 < sum(still) <= MAX_CONNECTIONS
        assert still == sorted(still)  # the last ones


def test_an_incomplete_request_is_ended_however_slowly_it_continues(impatient: int) -> None:
    with socket.create_connection(("127.0.0.1", impatient)) as client:
        client.sendall(HALF)
        began = time.monotonic()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while time.monotonic() - began < 20:
                client.sendall(b"x")
                time.sleep(0.05)
        assert 0.4 < time.monotonic() - began < 10


def test_a_connection_that_asks_again_and_again_stays(impatient: int) -> None:
    connection = HTTPConnection("127.0.0.1", impatient, timeout=10)
    for _ in range(6):
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"here"
        time.sleep(0.15)
        assert connection.sock is not None
    connection.close()


def test_an_answer_that_is_not_read_ends(impatient: int) -> None:
    with socket.create_connection(("127.0.0.1", impatient)) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(2.5)
        client.settimeout(10)
        received = 0
        with suppress(ConnectionResetError):
            while chunk := client.recv(1 << 20):
                received += len(chunk)
        assert received < LARGE
    assert answer(impatient) == "here"
