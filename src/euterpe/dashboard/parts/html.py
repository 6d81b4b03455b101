"""HTML as values. Text is escaped when it goes into an element; only an element is HTML, so nothing is forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final, Protocol, TypeAlias

VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Html(str):
    """Text that is HTML already. Joined to plain text it is plain text again, and is escaped."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"


class Element(Protocol):
    """Makes elements of one name. `class_` is the attribute class, `aria_label` is aria-label."""

    def __call__(self, *children: Child, **attributes: Attribute) -> Html: ...


def element(name: str) -> Element:
    def make(*children: Child, **attributes: Attribute) -> Html:
        opening = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
        if name in VOID:
            return Html(opening)
        return Html(f"{opening}{''.join(_texts(children))}</{name}>")

    return make


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value), quote=True)}"'


def _texts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, Html):
            yield child
        elif isinstance(child, str):
            yield escape(child, quote=False)
        elif isinstance(child, int):
            yield str(child)
        elif child is not None:
            yield from _texts(child)


def joined(*children: Child) -> Html:
    """Elements one after the other, without one around them."""
    return Html("".join(_texts(children)))


a = element("a")
audio = element("audio")
button = element("button")
code = element("code")
dd = element("dd")
details = element("details")
div = element("div")
dl = element("dl")
dt = element("dt")
form = element("form")
g = element("g")
h1 = element("h1")
h2 = element("h2")
h3 = element("h3")
input_ = element("input")
label = element("label")
li = element("li")
nav = element("nav")
ol = element("ol")
p = element("p")
path = element("path")
pre = element("pre")
progress = element("progress")
rect = element("rect")
section = element("section")
small = element("small")
span = element("span")
strong = element("strong")
summary = element("summary")
svg = element("svg")
table = element("table")
tbody = element("tbody")
td = element("td")
text = element("text")
textarea = element("textarea")
th = element("th")
thead = element("thead")
time = element("time")
title = element("title")
tr = element("tr")
ul = element("ul")
