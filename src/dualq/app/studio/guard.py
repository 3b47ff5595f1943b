"""Guard: who may ask, and what every answer says to the browser.

    Host            must be a name of this machine's loopback with our port: a page of another site whose name was made
                    to point here (DNS rebinding) sends its own name
    Origin          must be ours where there is one, and Sec-Fetch-Site too: another site cannot post
    Authorization   "Bearer TOKEN" for all that lies under /api; the token is random, and known to whoever was shown
                    the address. It stands in the part of the address after #, which no server ever sees
    key             for a file that the browser opens by its address: HMAC(TOKEN, path), which opens that file only

The Content-Security-Policy allows scripts, styles and requests of our own and nothing else: no inline script, no eval,
no other host. The report is a page of its own, with its style inside and no script at all.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-modals allow-same-origin"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NAMES = ("127.0.0.1", "localhost", "[::1]")


def hosts_of(port: int) -> frozenset[str]:
    """What the header Host may be."""
    return frozenset(f"{name}:{port}" for name in NAMES)


def key_of(token: str, path: str) -> str:
    """What opens one file, and tells nothing of the token."""
    return hmac.new(token.encode(), path.encode(), hashlib.sha256).hexdigest()


def opens(token: str, path: str, key: str) -> bool:
    """Whether a key opens a file."""
    return hmac.compare_digest(key_of(token, path).encode(), key.encode())


@dataclass(frozen=True)
class Guard:
    """Stands before the application, and answers in its place where nobody may ask."""

    app: ASGIApp
    token: str
    hosts: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or go on with the headers added."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self._refused(Headers(scope=scope), scope["path"])

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add(MutableHeaders(scope=message))
            await send(message)

        answer: ASGIApp = self.app
        if refused is not None:
            status, words = refused
            answer = JSONResponse({"error": words}, status)
        await answer(scope, receive, send_with_headers)

    def _refused(self, headers: Headers, path: str) -> tuple[int, str] | None:
        """(status, why) where nobody may ask this."""
        if headers.get("host", "") not in self.hosts:
            return 403, "this address is not one of the studio's"
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self.hosts:
            return 403, "another site may not ask the studio"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "another site may not ask the studio"
        if path.startswith("/api/") and not self._knows(headers.get("authorization", "")):
            return 401, "open the address that `dualq studio` printed: it has the token"
        return None

    def _knows(self, said: str) -> bool:
        return hmac.compare_digest(said.encode(), f"Bearer {self.token}".encode())


def _add(headers: MutableHeaders, more: Iterable[tuple[str, str]] = HEADERS.items()) -> None:
    for name, value in more:
        headers.setdefault(name, value)
    headers.setdefault("Content-Security-Policy", POLICY)
