"""Access control of the page: requests need the token of the printed link, and no other web site may send any."""

import hmac
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Nothing from other hosts, and no inline script or style: markup in a run's text has no effect.
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
          "form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
# `no-store` keeps pages out of the browser's disk cache, which other programs can read.
HEADERS = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "same-origin",
           "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
           "cache-control": "no-store"}
NO_TOKEN = ("This page needs the link that `workings ui` printed: it carries a token, so that other programs and "
            "sites cannot use the page. `workings ui` prints the same link at every start.\n")


class Guard:
    """ASGI middleware around every route, static files included.

    - *Host* must be a loopback name with our port: this stops a site whose name points at 127.0.0.1.
    - *Origin*, where a browser sends one, must be ours.
    - A request needs the token: once in the link, then as a strict cookie that no script reads, or as a bearer token.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self.app = app
        self.token = token
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        # Browsers share cookies between all ports of a host, so the name includes the port.
        self.cookie = f"workings_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        # "lifespan" is the start and stop of the server; anything else is refused.
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self.app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, query = Headers(scope=scope), QueryParams(scope["query_string"])
        # A site whose name points at 127.0.0.1 would count as this page's origin.
        if headers.get("host", "") not in self.hosts:
            return PlainTextResponse("This page answers to 127.0.0.1 and localhost only.\n", 421)
        origin = headers.get("origin")
        # Browsers send it with every POST and cross-site fetch, but not for a link.
        if origin is not None and (urlsplit(origin).scheme != "http" or urlsplit(origin).netloc not in self.hosts):
            return PlainTextResponse("This page takes no requests from other sites.\n", 403)
        # No script can forge a header that begins with `Sec-`.
        if scope["method"] not in ("GET", "HEAD") and headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse("This page takes no requests from other sites.\n", 403)
        if scope["method"] in ("GET", "HEAD") and self._is_token(query.get("token", "")):
            # Without the token in the address, which is seen in histories and screenshots.
            rest = urlencode([(key, value) for key, value in query.multi_items() if key != "token"])
            path = "/" + scope["path"].lstrip("/\\")  # never another host's name
            answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            # Strict: a link on another site opens the page without the cookie.
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        if not (self._is_token(cookie) or self._is_token(bearer)):
            return PlainTextResponse(NO_TOKEN, 401)
        return None

    def _is_token(self, text: str) -> bool:
        # In constant time; as bytes, because text that is not ASCII would raise an error.
        return hmac.compare_digest(text.encode(), self.token.encode())
