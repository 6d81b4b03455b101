"""The query language: what each word asks for, and what is said about a wrong one."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.errors import InvalidInput
from euterpe.model.reading.job_query import QUERY_LIMIT, joined, parse_query, query_text
from euterpe.model.reading.views import SCAN_LIMIT, Search
from euterpe.model.state import State

NOW = 1_767_225_600_000_000
HOUR = 3_600_000_000

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30)


def asked(**said: object) -> Search:
    return Search(scan_limit=SCAN_LIMIT, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("", asked()),
        ("  \t ", asked()),
        ("state:failed", asked(state=State.FAILED)),
        ("state:DEAD_LETTER", asked(state=State.DEAD_LETTER)),
        ("type:report.render", asked(type="report.render")),
        ("type:report.*", asked(type_prefix="report.")),
        ('type:"a *"', asked(type="a *")),
        ('type:"a b"*', asked(type_prefix="a b")),
        ("queue:default", asked(queue="default")),
        ("tag.team:a tag.env:prod", asked(tags=(("team", "a"), ("env", "prod")))),
        ('tag."my team":"a \\"b\\""', asked(tags=(("my team", 'a "b"'),))),
        ("tag.url:http://x/", asked(tags=(("url", "http://x/"),))),
        ("error:timeout", asked(error="timeout")),
        ("created:<1h", asked(created_after=NOW - HOUR)),
        ("created:>1h", asked(created_before=NOW - HOUR)),
        ("created:>2026-01-01", asked(created_after=NOW)),
        ("created:<2026-01-01T01:00:00+01:00", asked(created_before=NOW)),
        ("state:dead_letter ended:>1h", asked(state=State.DEAD_LETTER, ended_before=NOW - HOUR)),
        ("ended:>2026-01-01", asked(ended_after=NOW)),
        ("state:failed replayed:no", asked(state=State.FAILED, replayed=False)),
        ("order-7", asked(text="order-7")),
        ('"order: 7"', asked(text="order: 7")),
        ("state:failed state:failed", asked(state=State.FAILED)),
        (
            'state:failed type:report.* queue:default tag.team:a error:timeout created:>1h "order 7"',
            asked(
                state=State.FAILED, type_prefix="report.", queue="default", tags=(("team", "a"),), error="timeout",
                created_before=NOW - HOUR, text="order 7",
            ),
        ),
    ],
)  # fmt: skip
def test_a_query_asks_for_what_its_words_say(text: str, search: Search) -> None:
    assert parse_query(text, NOW) == search


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("stat:failed", "'stat:failed' at character 1: there is no 'stat' to ask for; known are state, type,"),
        ("queue:a state:lost", "'state:lost' at character 9: the states are pending, scheduled,"),
        ("  type:*.render", "'type:*.render' at character 3: a * stands at the end"),
        ("type:*", "'type:*' at character 1: a * stands at the end"),
        ('queue:"a"*', "only a type may be asked for by its beginning"),
        ("created:1h", "'created:1h' at character 1: say < or > first"),
        ("ended:1h", "'ended:1h' at character 1: say < or > first, as in ended:<1h"),
        ("created:<1 hour", "'created:<1' at character 1: the age '1' has no unit; did you mean 1s?"),
        ("created:>2026-13-01", "'created:>2026-13-01' at character 1: write an age"),
        ("queue:", "'queue:' at character 1: it says no value"),
        ('""', "the text is empty"),
        ('a "order 7', "at character 3: the quote has no end"),
        ('x"y"', "'x\"y\"' at character 1: put text with a colon or a quote into quotes"),
        ("state:failed state:running", "'state:running' at character 14: this was given before with another value"),
        ("order 7", "'7' at character 7: this was given before with another value"),
        ("tag.a:1 tag.a:2", "'tag.a:2' at character 9: this tag was asked for with another value before"),
        ("tag.:x", "there is no 'tag.' to ask for"),
        ("type:a type:b*", "a type was given twice"),
        ("queue:" + 300 * "x", "300 characters are more than"),
        (":", "at character 1: put text with a colon or a quote into quotes"),
    ],
)
def test_a_wrong_word_is_named_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_query(text, NOW)
    assert refused.value.field == "q"
    assert complaint in str(refused.value)


def test_a_query_is_bounded_and_has_no_nul() -> None:
    for text in ("x" * (QUERY_LIMIT + 1), "a\x00b", "\ud800"):
        with pytest.raises(InvalidInput):
            parse_query(text, NOW)


@given(st.text(max_size=60))
def test_any_text_is_a_query_or_is_refused_by_name(text: str) -> None:
    with suppress(InvalidInput):  # and nothing else
        assert parse_query(text, NOW).scan_limit == SCAN_LIMIT


@given(
    state=st.none() | st.sampled_from(State),
    type=st.none() | TEXT,
    queue=st.none() | TEXT,
    tags=st.dictionaries(TEXT, TEXT, max_size=3),
    error=st.none() | TEXT,
    created_after=st.none() | st.integers(0, 2**50),
    created_before=st.none() | st.integers(0, 2**50),
    ended_after=st.none() | st.integers(0, 2**50),
    ended_before=st.none() | st.integers(0, 2**50),
    replayed=st.none() | st.booleans(),
    text=st.none() | TEXT,
    by_beginning=st.booleans(),
)
def test_the_text_of_a_search_asks_for_the_same(
    state: State | None,
    type: str | None,
    queue: str | None,
    tags: dict[str, str],
    error: str | None,
    created_after: int | None,
    created_before: int | None,
    ended_after: int | None,
    ended_before: int | None,
    replayed: bool | None,
    text: str | None,
    by_beginning: bool,
) -> None:
    search = asked(
        state=state,
        type=None if by_beginning else type,
        type_prefix=type if by_beginning else None,
        queue=queue,
        tags=tuple(tags.items()),
        error=error,
        created_after=created_after,
        created_before=created_before,
        ended_after=ended_after,
        ended_before=ended_before,
        replayed=replayed,
        text=text,
    )
    assert parse_query(query_text(search), NOW) == search


def test_options_beside_a_query_are_joined_to_it_and_must_not_contradict_it() -> None:
    query = parse_query("state:failed type:a", NOW)
    both = joined(query, Search(queue="q", state=State.FAILED, tag=("t", "x"), limit=7, cursor="9"))
    assert both == asked(state=State.FAILED, type="a", queue="q", tag=("t", "x"), limit=7, cursor="9")
    with pytest.raises(InvalidInput) as refused:
        joined(query, Search(type="b"))
    assert refused.value.field == "type"
