"""Signing in with the token of the service port, and out; and the files of the pages, which all may have."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from ingestor.http_server.bounded import RequestRefused, WrongToken
from ingestor.page.frame import HEADERS, static
from ingestor.page.site import SIGN_IN, Site, local


def routes(site: Site) -> list[BaseRoute]:
    async def ask(request: Request) -> Response:
        wanted = local(request.query_params.get("next", "/"))
        if site.sessions.admits(request):
            return RedirectResponse(wanted, 303, HEADERS)
        values = {"next": wanted, "wrong": request.query_params.get("wrong") == "1"}
        return await site.shown(request, "sign_in.html", values)

    async def sign_in(request: Request) -> Response:
        try:
            form = await site.form(request)
        except RequestRefused as refused:
            return site.refusal(request, refused)
        wanted = local(form.get("next", "/"))
        response = RedirectResponse(wanted, 303, HEADERS)
        if site.sessions.open(form.get("token", "").strip(), request, response):
            return response
        wrong = WrongToken(303, "the token is wrong")
        wrong.answer = RedirectResponse(f"{SIGN_IN}?wrong=1&next={quote(wanted, safe='/')}", 303, HEADERS)
        raise wrong

    async def sign_out(request: Request) -> Response:
        try:
            await site.form(request)
        except RequestRefused as refused:
            return site.refusal(request, refused)
        response = RedirectResponse(SIGN_IN, 303, HEADERS)
        site.sessions.end(request, response)
        return response

    return [
        Route(SIGN_IN, ask, methods=["GET"]),
        Route(SIGN_IN, sign_in, methods=["POST"]),
        Route("/page/sign-out", sign_out, methods=["POST"]),
        Route("/static/{name}", file, methods=["GET"]),
    ]


async def file(request: Request) -> Response:
    found = static(request.path_params["name"])
    if found is None:
        raise RequestRefused(404, "there is no such file")
    content, kind, tag = found
    headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(None, 304, headers)
    return Response(content, 200, {**headers, "Content-Type": kind})
