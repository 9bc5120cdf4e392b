"""A wrong address of a Ray head node is noticed within seconds; Ray would try for minutes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sweeper.executors.engines.engine import AddressError
from sweeper.executors.engines.head_node import check_head_node

SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """The address of a server that gives this answer once."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            there, _ = listening.accept()
            with there:
                there.recv(1024)
                there.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_server_that_speaks_the_protocol_may_be_a_head_node() -> None:
    with server(SETTINGS) as address:
        check_head_node(address)


@pytest.mark.parametrize("answer", [b"HTTP/1.0 505 Not supported\r\n", b""])
def test_a_server_of_another_protocol_is_not_a_head_node(answer: bytes) -> None:
    with server(answer) as address, pytest.raises(AddressError, match="is not a head node"):
        check_head_node(address)


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:port", "local"])
def test_an_address_has_a_host_and_a_port(address: str) -> None:
    with pytest.raises(AddressError, match="not of the form HOST:PORT"):
        check_head_node(address)


def test_without_a_listener_the_error_of_the_system_is_reported() -> None:
    with pytest.raises(OSError, match="refused"):
        check_head_node("127.0.0.1:1")
