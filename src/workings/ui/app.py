"""The page as a FastAPI application: routes, access control, error pages."""

import logging
import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import jinja2
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from workings.errors import RequestError, WorkingsError
from workings.ui.guard import Guard
from workings.ui.routes import compare, data, plan, runs, start
from workings.ui.site import Site

DESCRIPTION = """Runs, comparisons and commands as JSON. Each call needs the token from the link of `workings ui`, as
`Authorization: Bearer TOKEN`. Runs are named by their path below the folder."""


def make_app(root: Path, *, token: str, port: int) -> FastAPI:
    """The application over a folder of runs, for requests that carry the token to this port."""
    site = Site.over(root)
    # Without FastAPI's documentation pages, which load scripts from another host.
    app = FastAPI(title="workings", version=version("workings"), description=DESCRIPTION, docs_url=None,
                  redoc_url=None, openapi_url="/api/openapi.json",
                  middleware=[Middleware(Guard, token=token, port=port)])
    for part in (runs, compare, data, plan, start):
        app.include_router(part.router(site))

    @app.get("/static/base.css", include_in_schema=False)
    def base_style() -> Response:
        return FileResponse(str(files("workings.reports") / "templates" / "style.css"), media_type="text/css")

    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")

    def problem(request: Request, status: int, given: str, expected: str = "", try_next: str = "") -> Response:
        if request.url.path.startswith("/api/"):
            body = {"error": given, "expected": expected, "try": try_next}
            return JSONResponse({key: text for key, text in body.items() if text}, status_code=status)
        return site.html("problem.html.jinja", status, given=given, expected=expected, try_next=try_next)

    @app.exception_handler(RequestError)
    def wrong_request(request: Request, error: RequestError) -> Response:
        status = 404 if request.method == "GET" else 422  # of a link, or of a form
        return problem(request, status, error.given, error.expected, error.try_next)

    @app.exception_handler(WorkingsError)
    def unreadable(request: Request, error: WorkingsError) -> Response:
        return problem(request, 409, str(error), "a run with undamaged files", "workings verify on this run")

    def misshapen(request: Request, error: Exception) -> Response:
        """A damaged record, or a bug: the traceback goes to the terminal."""
        logging.getLogger("uvicorn.error").error("%s", request.url.path, exc_info=error)
        return problem(request, 409, f"{request.url.path}: a file of this run is damaged ({type(error).__name__})",
                       "a run with undamaged files", "workings verify on this run")

    # Not `Exception`, whose handler Starlette runs outside of the guard before it raises the error again.
    for kind in (AttributeError, KeyError, OSError, TypeError, ValueError, RecursionError, jinja2.TemplateRuntimeError):
        app.add_exception_handler(kind, misshapen)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"][1:]))
        if first["type"] == "missing":
            return problem(request, 422, f"no {name}", f"a value for {name}")
        # The library writes "Input should be …" or "String should have …".
        expected = re.sub(r"^\w+ should (be )?", "", first["msg"])
        return problem(request, 422, f"{name}: {str(first['input'])[:200]}", f"{name}: {expected}")

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        return problem(request, error.status_code, f"{request.url.path}: {error.detail}")

    return app
