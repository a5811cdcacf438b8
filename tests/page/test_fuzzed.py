"""No address of the pages answers with a defect, whatever is asked."""

import json
from urllib.parse import urlencode

import httpx
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.page.seen import Page

NAMES = (
    "q",
    "n",
    "mode",
    "collection",
    "source",
    "match",
    "which",
    "after",
    "before",
    "from",
    "done",
    "next",
)
PATHS = ("/", "/page/documents", "/page/documents/long", "/page/search", "/page/changes")
VALUES = st.one_of(
    st.text(max_size=50),
    st.sampled_from(["docs", "lexical", "dense", "failed", "short", "-1", "99999999999", "%00", "ERR_4711"]),
    st.lists(st.text(max_size=5), min_size=3, max_size=3).map(json.dumps),
)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(st.sampled_from(PATHS), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
@example("/page/search", {"q": '"unbalanced AND (', "mode": "lexical"})
@example("/page/search", {"q": "a\ud83dlone".encode("utf-8", "replace").decode(), "n": "50"})
@example("/page/documents", {"after": json.dumps(["docs", "docs", "\ud800"])})
@example("/page/documents", {"match": "%_'\"", "which": "due"})
def test_questions_have_no_defects(client: httpx.Client, path: str, query: dict[str, str]) -> None:
    said = client.get(f"{path}?{urlencode(query, errors='surrogatepass')}")
    assert said.status_code in (200, 303, 404, 422, 503), said.text
    if said.status_code != 303:
        Page(said)


@QUICK
@given(
    st.sampled_from(["retry", "accept", "pause", "resume"]),
    st.dictionaries(st.sampled_from(["source", "back", "token", "next"]), VALUES, max_size=4),
    st.binary(max_size=60),
)
def test_forms_have_no_defects(
    client: httpx.Client, button: str, form: dict[str, str], content: bytes
) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    token = Page(client.get("/page/changes")).token()
    if form.get("source") == "docs":
        form["source"] = "other"
    body = urlencode({**form, "form_token": token}, errors="surrogatepass").encode()
    for each in (body, content, body + b"&" + content):
        said = client.post(f"/page/{button}", content=each, headers=kind)
        assert said.status_code in (303, 400, 403, 404, 409, 422), said.text
        address = said.headers.get("location", "/")
        assert address.startswith("/")
        assert not address.startswith("//")
