"""Checks within seconds, and without Ray, whether a Ray head node may be at an address."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from sweeper.executors.engines.engine import AddressError

_CONNECT_S = 5.0
# the start of HTTP/2: the client's preface and empty settings, answered by settings (RFC 9113, 3.4)
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS


def check_head_node(address: str) -> None:
    """Check that something at the address speaks HTTP/2, the protocol of head nodes.

    Raises:
        AddressError: another program answers, or the address is malformed.
        OSError: nothing does.
    """
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        raise AddressError("it is not of the form HOST:PORT")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S) as there:
        if os.environ.get("RAY_USE_TLS", "0") != "0":
            return
        there.sendall(_PREFACE)
        said = b""
        with suppress(TimeoutError):
            while len(said) < len(_SETTINGS) and (more := there.recv(len(_SETTINGS) - len(said))):
                said += more
    if said[3:4] != _SETTINGS[3:4]:
        raise AddressError("what answers there is not a head node")
