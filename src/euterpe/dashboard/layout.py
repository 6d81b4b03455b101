"""What is around every page: head, navigation, search, and the headers that keep everything foreign out."""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple

from euterpe.dashboard.assets import asset
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.html import Child, Html, element
from euterpe.dashboard.sign_in import Visitor
from euterpe.server.http.asgi import Answer, Header

HTML: Final = b"text/html; charset=utf-8"
HOME: Final = "/"
JOBS: Final = "/dashboard/jobs"
FAILURES: Final = "/dashboard/failures"
OPERATIONS: Final = "/dashboard/operations"
TRANSCODES: Final = "/dashboard/transcodes"
SIGN_IN: Final = "/dashboard/sign-in"
SIGN_OUT: Final = "/dashboard/sign-out"
PLACES: Final = (
    ("Overview", HOME),
    ("Jobs", JOBS),
    ("Failures", FAILURES),
    ("Queues", "/dashboard/queues"),
    ("Webhooks", "/dashboard/webhooks"),
    ("Transcodes", TRANSCODES),
    ("Operations", OPERATIONS),
)
KEYS: Final = (
    ("/", "search"),
    ("j, k", "next and previous row"),
    ("Enter", "open the row"),
    ("r", "load the page anew"),
    ("p", "pause or resume live updates"),
    ("?", "this help"),
)

_html, _head, _body, _header, _main = map(element, ("html", "head", "body", "header", "main"))
_meta, _link, _script, _dialog = map(element, ("meta", "link", "script", "dialog"))


class PageFrame(NamedTuple):
    """What a page's own code makes. `live` is where its body comes from again and again."""

    title: str
    body: Html
    place: str = ""
    live: str | None = None
    query: str = ""
    status: int = 200


def headers(nonce: str) -> tuple[Header, ...]:
    """Nothing runs, loads, frames or receives forms but what is ours."""
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self'; media-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"same-origin"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )


def page_answer(page: PageFrame, visitor: Visitor | None, more: tuple[Header, ...] = ()) -> Answer:
    nonce = secrets.token_urlsafe(16)
    document = "<!doctype html>\n" + _html(
        _head(
            _meta(charset="utf-8"),
            _meta(name="viewport", content="width=device-width, initial-scale=1"),
            _meta(name="color-scheme", content="light dark"),
            h.title(f"{page.title} · Euterpe"),
            _link(rel="icon", href=asset("icon.svg").path, type="image/svg+xml"),
            _link(rel="stylesheet", href=asset("dashboard.css").path, nonce=nonce),
            _script(src=asset("dashboard.js").path, nonce=nonce),
        ),
        _body(
            h.a("Skip to the content", href="#content", class_="skip"),
            _top(page, visitor) if visitor is not None else None,
            _main(page.body, id="content", tabindex="-1", data_live=page.live),
            _help() if visitor is not None else None,
        ),
        lang="en",
    )
    return Answer(page.status, document.encode(), HTML, (*headers(nonce), *more))


def _top(page: PageFrame, visitor: Visitor) -> Html:
    links = [
        h.li(h.a(name, href=address, aria_current="page" if address == page.place else None))
        for name, address in PLACES
    ]
    # Whoever sees everything is told so by the pages; whoever does not, here.
    whose = h.span(visitor.requester_id, h.span("read only", class_="rights"), class_="whose")
    return _header(
        h.a(h.span("Euterpe", class_="wordmark"), href=HOME, class_="home"),
        h.nav(h.ul(links), aria_label="Pages"),
        search_box(page.query),
        h.div(
            h.button("Pause", type="button", id="pause", aria_pressed="false", hidden=True),
            h.button("Theme", type="button", id="theme", aria_label="Dark or light"),
            h.button("?", type="button", id="help-button", aria_label="Keys"),
            class_="tools",
        ),
        h.form(
            csrf(visitor),
            None if visitor.is_admin else whose,
            h.button("Sign out", type="submit"),
            method="post",
            action=SIGN_OUT,
            class_="account",
        ),
        class_="top",
    )


def search_box(query: str) -> Html:
    return h.form(
        h.label("Search jobs", for_="search", class_="unseen"),
        h.input_(
            id="search",
            name="q",
            value=query,
            type="search",
            autocomplete="off",
            spellcheck="false",
            placeholder="state:failed type:report.*",
            aria_describedby="search-hint",
        ),
        h.span("Press / to search; ? tells more.", id="search-hint", class_="unseen"),
        action=JOBS,
        method="get",
        role="search",
        class_="search",
    )


def _help() -> Html:
    keys = [h.joined(h.dt(key), h.dd(does)) for key, does in KEYS]
    words = (
        ("state:failed", "in this state"),
        ("type:report.*", "of this type, or one that begins so"),
        ("queue:default", "in this queue"),
        ("tag.team:a", "with this tag"),
        ("error:timeout", "whose last error has this code or category"),
        ("state:failed replayed:no", "that no other job runs again yet"),
        ("created:<1h", "younger than an hour; created:>2026-01-31 after that day began"),
        ('"order 7"', "this correlation id, or the beginning of an id"),
    )
    return _dialog(
        h.h2("Keys"),
        h.dl(keys, class_="keys"),
        h.h2("Search"),
        h.dl([h.joined(h.dt(h.code(word)), h.dd(means)) for word, means in words], class_="keys"),
        h.form(h.button("Close", type="submit"), method="dialog"),
        id="help",
        aria_label="Help",
    )


def csrf(visitor: Visitor) -> Html:
    """Every form that changes something carries it."""
    return h.input_(type="hidden", name="csrf", value=visitor.form_token)


def act(
    visitor: Visitor, address: str, label: str, *fields: Child, danger: bool = False, about: str | None = None
) -> Html | None:
    """A button that changes something; nothing for whoever may only read. `about` tells it from others like it."""
    if not visitor.is_admin:
        return None
    return h.form(
        csrf(visitor),
        fields,
        h.button(
            label,
            h.span(f" {about}", class_="unseen") if about else None,
            type="submit",
            class_="danger" if danger else None,
        ),
        method="post",
        action=address,
    )


def heading(title: Child, *more: Child) -> Html:
    return h.div(h.h1(title), more, class_="heading")


def notice(said: str | None, sentences: dict[str, str]) -> Html | None:
    """What has just been done. Only sentences of ours are said: an address cannot put words into a page."""
    sentence = sentences.get(said or "")
    return None if sentence is None else h.p(sentence, class_="notice", role="status")


def panel(title: str, *children: Child, hint: Child = None) -> Html:
    name = "p-" + "".join(c if c.isalnum() else "-" for c in title.lower())
    return h.section(
        h.div(h.h2(title, id=name), h.span(hint, class_="hint") if hint is not None else None, class_="panel-head"),
        children,
        class_="panel",
        aria_labelledby=name,
    )


def grid(columns: list[Child], rows: list[Html], label: str, narrow: str | None = None) -> Html:
    """A table that scrolls by itself on a narrow screen. `narrow` is the class of columns that a phone leaves out."""
    return h.div(
        h.table(h.thead(h.tr([h.th(column, scope="col") for column in columns])), h.tbody(rows), aria_label=label),
        class_=f"scroll {narrow}" if narrow else "scroll",
        tabindex="0",
        role="region",
        aria_label=f"{label}, scrolls sideways",
    )


def empty(*said: Child) -> Html:
    return h.p(said, class_="empty")
