"""The way in and out: sign in with an API key or a link that works once, sign out."""

from __future__ import annotations

import re
import secrets
from typing import Final
from urllib.parse import quote

import msgspec

from euterpe.dashboard.layout import HOME, SIGN_IN, PageFrame, empty, page_answer
from euterpe.dashboard.page_server import Form, PageServer, foreign_form, see, trouble
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.html import Html, joined
from euterpe.dashboard.sign_in import cookie_of, form_token, is_own_form, set_cookie
from euterpe.model.errors import EuterpeError
from euterpe.server.http.asgi import Answer, Header, Request
from euterpe.server.http.problems import Refusal

OWN_PAGE: Final = re.compile(r"/(dashboard/[!-~]*)?", re.ASCII)
WRONG_KEY: Final = (
    "This key does not open the dashboard. It must be known, not expired or revoked, and have scope read or admin."
)
LINK_IS_OVER: Final = "This link has been used, or is too old. Sign in with a key, or start anew for another link."


class SignInQuery(msgspec.Struct, frozen=True):
    """`next` is the page that was asked for; `once` signs in."""

    next: str | None = None
    once: str | None = None


class SignInForm(Form, frozen=True):
    """A key, and where to go with it."""

    key: str | None = None
    next: str | None = None


class Entrance:
    """Sign-in and sign-out."""

    def __init__(self, server: PageServer) -> None:
        self._server = server
        self._sign_in = server.sign_in

    async def show(self, request: Request, said: SignInQuery) -> Answer:
        try:
            if said.once is not None and not request.is_head:
                token = await self._sign_in.with_link(said.once)
                if token is not None:
                    return see(HOME, set_cookie(request, token))
                return self._page(request, said.next, LINK_IS_OVER)
            if await self._sign_in.visitor(request) is not None:
                return see(own_page(said.next))
        except EuterpeError as error:
            return trouble(error, None)
        return self._page(request, said.next)

    async def enter(self, request: Request, said: SignInForm) -> Answer:
        try:
            if not is_own_form(request, said.csrf):
                raise foreign_form()
            token = await self._sign_in.with_key(said.key or "")
        except (Refusal, EuterpeError) as error:
            return trouble(error, None)
        if token is None:
            return self._page(request, said.next, WRONG_KEY)
        await self._sign_in.end(request)
        return see(own_page(said.next), set_cookie(request, token))

    async def leave(self, request: Request, said: Form) -> Answer:
        try:
            if not is_own_form(request, said.csrf):
                raise foreign_form()
            await self._sign_in.end(request)
        except (Refusal, EuterpeError) as error:
            return trouble(error, None)
        return see(SIGN_IN, set_cookie(request, "", lasts_s=0))

    def _page(self, request: Request, wanted: str | None, wrong: str | None = None) -> Answer:
        token = cookie_of(request)
        cookie: tuple[Header, ...] = ()
        if token is None:
            token = secrets.token_urlsafe(32)
            cookie = (set_cookie(request, token, lasts_s=None),)
        status = 200 if wrong is None else 403
        return page_answer(PageFrame("Sign in", _form(token, wanted, wrong), status=status), None, cookie)


def own_page(wanted: str | None) -> str:
    """Where to go: only ever to a page of the dashboard."""
    if wanted is None or not OWN_PAGE.fullmatch(wanted) or wanted.startswith("/dashboard/live"):
        return HOME
    return quote(wanted, safe="/?&=%+:,;@!$'()*-._~")


def _form(token: str, wanted: str | None, wrong: str | None) -> Html:
    return h.div(
        h.h1(h.span("Euterpe", class_="wordmark")),
        h.p("Jobs, queues and webhooks of this server.", class_="soft"),
        h.form(
            h.input_(type="hidden", name="csrf", value=form_token(token)),
            h.input_(type="hidden", name="next", value=wanted) if wanted else None,
            # For password managers, which keep a name beside each key.
            h.input_(type="text", name="name", value="Euterpe", autocomplete="username", hidden=True),
            h.label("API key", for_="key"),
            h.input_(
                id="key",
                name="key",
                type="password",
                autocomplete="current-password",
                required=True,
                autofocus=True,
                spellcheck="false",
                aria_describedby="key-wrong" if wrong else None,
                aria_invalid="true" if wrong else None,
            ),
            h.p(wrong, class_="wrong", id="key-wrong", role="alert") if wrong else None,
            h.button("Sign in", type="submit", class_="main"),
            method="post",
            action=SIGN_IN,
        ),
        joined(
            empty(
                "A key with scope read sees its own requester's jobs; one with scope admin sees all and may act. "
                "Make one with ",
                h.code("euterpe keys create --requester me --scope admin"),
                ".",
            ),
        ),
        class_="entrance",
    )
