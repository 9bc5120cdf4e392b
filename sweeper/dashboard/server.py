"""Serves the page of some studies: read-only, and by default only to this machine."""

from __future__ import annotations

import ipaddress
import re
import socket

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sweeper.dashboard.connections import BoundedServer
from sweeper.dashboard.files import MEDIA, STATIC
from sweeper.dashboard.packing import as_json
from sweeper.dashboard.page import Page, PageState
from sweeper.errors import Problem, SetupError

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# a name or an address, with brackets for IPv6, and a port
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::([0-9]{1,5}))?", re.ASCII)
_LARGEST_PORT = 65535
_NUMBER = re.compile(r"[0-9]{1,15}")


class OwnHostOnly:
    """Refuses requests under names that are not this server's, to prevent DNS rebinding."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "http":
            names = [value for name, value in scope["headers"] if name == b"host"]
            if len(names) != 1 or not is_own_name(names[0].decode("latin-1"), self._host):
                refusal = PlainTextResponse("this is not a name of this server\n", 400)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_own_name(header: str, host: str) -> bool:
    """Whether `header`, a Host header, may name a server that listens on `host`.

    Beyond loopback, any address is accepted: only names can be made to point elsewhere.
    """
    found = _HOST.fullmatch(header.lower())
    if found is None or int(found[3] or 0) > _LARGEST_PORT:
        return False
    if found[1] is not None and not _is_address(found[1], 6):
        return False
    name = found[1] or found[2]
    if host in _LOOPBACK:
        return name in _LOOPBACK
    return name in (*_LOOPBACK, host.lower(), socket.gethostname().lower()) or _is_address(name)


def _is_address(name: str, version: int | None = None) -> bool:
    try:
        found = ipaddress.ip_address(name)
    except ValueError:
        return False
    return version in (None, found.version)


def _number(text: str, otherwise: int) -> int:
    """The number in a path or a query.

    Raises:
        HTTPException: it has too many digits, or `otherwise` is not a number.
    """
    if _NUMBER.fullmatch(text):
        return int(text)
    status = 400 if text.isdigit() else otherwise
    raise HTTPException(status, "not a number of at most 15 digits\n", HEADERS)


def make_app(page: Page, host: str = "127.0.0.1") -> Starlette:
    """The application; its paths are relative, so a proxy may serve it under any path."""

    def through(request: Request, name: str) -> int:
        text = request.query_params.get(name, "-1")
        return -1 if text == "-1" else _number(text, 400)

    async def index(request: Request) -> Response:
        return Response(page.html(), media_type="text/html", headers=HEADERS)

    async def static(request: Request) -> Response:
        found = STATIC.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("no such file\n", 404, HEADERS)
        return Response(
            found.read_bytes(),
            media_type=MEDIA[found.suffix],
            headers={**HEADERS, "Cache-Control": "no-cache"},
        )

    async def study(request: Request) -> Response:
        index = _number(request.path_params["index"], 404)
        if index >= len(page.studies):
            return PlainTextResponse("no such study\n", 404, HEADERS)
        known = PageState(
            through(request, "trials"),
            through(request, "buckets"),
            through(request, "spans"),
            frozenset(request.query_params.get("views", "").split(",")),
        )
        try:
            payload = page.payload(index, known)
        except SetupError as error:  # the run directory was removed
            return PlainTextResponse(f"{error}\n", 503, HEADERS)
        return _json(payload)

    async def curves(request: Request) -> Response:
        index, number = (_number(request.path_params[name], 404) for name in ("index", "number"))
        if index >= len(page.studies):
            return PlainTextResponse("no such study\n", 404, HEADERS)
        return _json(page.curves(index, number))

    return Starlette(
        routes=[
            Route("/", index),
            Route("/static/{name}", static),
            Route("/studies/{index}", study),
            Route("/studies/{index}/curves/{number}", curves),
        ],
        middleware=[Middleware(OwnHostOnly, host=host)],
    )


def _json(record: object) -> Response:
    headers = {**HEADERS, "Cache-Control": "no-store"}
    return Response(as_json(record), media_type="application/json", headers=headers)


def listen(host: str, port: int) -> socket.socket:
    """A socket on `host` and `port`, any free one for 0.

    Raises:
        SetupError: it is in use, or not an address of this machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        hint = "choose another with --port, or 0 for any free port"
        raise SetupError(Problem(f"{host}:{port}", "", str(error), hint)) from None


def serve(page: Page, host: str, listening: socket.socket) -> None:
    """Serve the page until Ctrl-C."""
    BoundedServer(make_app(page, host)).run(sockets=[listening])


def server_url(listening: socket.socket) -> str:
    """The URL of a server that listens on this socket."""
    name, port, *_ = listening.getsockname()
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(name), str(name))
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
