"""The pages over HTTP: what they show, that no document does harm in them, and no question is a defect."""

import json
import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ingestor.evaluate import stored_report
from ingestor.page.documents import CHUNKS as IN_A_PAGE
from ingestor.service.openapi import description
from ingestor.state.run_status import SyncProgress
from tests.page.conftest import ATTACK, CHUNKS, evaluation
from tests.page.seen import Page
from tests.service.world import Daemon
from tests.waiting import wait

PAGES = [
    "/",
    "/page/documents",
    "/page/documents?source=docs&which=failed",
    "/page/documents/long",
    "/page/documents/evil",
    "/page/documents/bad",
    "/page/documents/late",
    "/page/search",
    "/page/search?q=blocked+card&collection=docs",
    "/page/search?q=number&mode=lexical&where=%7B%22language%22%3A+%22en%22%7D",
    "/page/changes",
    "/page/evaluation?collection=docs",
    f"/page/search?q={quote(ATTACK)}",
    f"/page/documents?match={quote(ATTACK)}&source={quote(ATTACK)}",
    f"/page/documents/{quote(ATTACK, safe='')}",
    f"/page/documents?collection={quote(ATTACK)}",
]


def get(client: httpx.Client, path: str, status: int = 200) -> Page:
    response = client.get(path)
    assert response.status_code == status, response.text
    return Page(response)


@pytest.mark.parametrize("path", PAGES)
def test_document_text_becomes_no_element_or_script(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    page = Page(response)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(
        part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"]) == ("'self'", "'self'")
    assert not any("unsafe" in value or "*" in value for value in policy.values())
    assert [one.get("src") for one in page.all("script")] == ["/static/page.js"]
    assert {one.get("src") for one in page.all("img")} == {"/static/icon.svg"}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert not [1 for _, attributes in page.tags if "style" in attributes]
    addresses = [
        str(value) for _, one in page.tags for key, value in one.items() if key in ("href", "action")
    ]
    assert all(re.match(r"(/|\?|#|https://example\.org/)", address) for address in addresses), addresses
    assert "alert(1)" not in "".join(page.texts.get("script", []) + page.texts.get("style", []))
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00]", response.text)
    assert "49" not in page.texts["title"][0], "templates in values are not run"


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_made_for_keyboards_and_screen_readers(client: httpx.Client, path: str) -> None:
    page = Page(client.get(path))
    assert [one.get("lang") for one in page.all("html")] == ["en"]
    assert len(page.texts["h1"]) == len(page.texts["main"]) == 1
    assert page.texts["title"][0].endswith("· ingestor")
    assert next(page.all("a"))["href"] == "#main"
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(page.texts.get("table", [])) == len(page.texts.get("caption", []))
    assert all(text.strip() for text in page.texts.get("caption", []) + page.texts.get("th", []))
    assert all(one.get("scope") for one in page.all("th"))
    ids = [one["id"] for _, one in page.tags if "id" in one]
    assert len(ids) == len(set(ids))
    referred = [
        one[key] for _, one in page.tags for key in ("aria-labelledby", "aria-describedby") if key in one
    ]
    assert set(referred) <= set(ids)
    fields = [one for tag in ("input", "select") for one in page.all(tag) if one.get("type") != "hidden"]
    assert len(fields) == len(page.texts.get("label", []))
    assert all(text.strip() for text in page.texts.get("button", []))


def test_overview_shows_sources_collections_and_failures(client: httpx.Client) -> None:
    page = get(client, "/")
    words = " ".join(page.text.split())
    assert "1 change pending" in words
    assert "Indexed2of 4 documents" in words
    assert "is damaged <script>alert(1)</script>" in words
    assert "the server is away" in words
    assert "2 attempts, next" in words
    assert f"{CHUNKS + 2}" in words, "records, as Chroma counts them"
    assert "The last 10 min Nothing changed since" in words
    assert "Pending1 1 to be retried".replace(" 1 t", "1 t") in words


def test_overview_of_an_empty_state_is_explained(empty: httpx.Client) -> None:
    assert "not scanned yet" in get(empty, "/").text
    assert "No document here." in get(empty, "/page/documents").text
    assert "There is no collection yet." in get(empty, "/page/search?q=a").text
    assert "No change waits for approval." in get(empty, "/page/changes").text


def test_documents_are_found_by_name_and_state(client: httpx.Client) -> None:
    def keys(query: str) -> list[str]:
        return [text.strip() for text in get(client, f"/page/documents?{query}").texts.get("th", [])[5:]]

    assert len(keys("")) == 4
    assert keys("match=LON") == ["The longlong.md"]
    assert keys("which=quarantined") == ["bad.pdf"]
    assert keys("which=failed") == ["bad.pdf", "late.md"]
    assert keys("source=other") == []
    assert keys("collection=docs&which=waiting") == ["late.md"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/page/documents?which=all", 422, "which must be one of"),
        ("/page/documents?collection=none", 404, "no collection"),
        ("/page/documents?after=%5B1%5D", 422, "start at the first page"),
        ("/page/documents?after=" + "%5B" * 5000, 422, "start at the first page"),
        ("/page/documents/nothing", 404, "no document with this id"),
        ("/page/documents/..%2f..%2fetc%2fpasswd", 404, ""),
        ("/page/documents/long?from=-1", 422, "a whole number"),
        ("/page/search?q=" + "x" * 20_001, 422, "at most 20,000 characters"),
        ("/page/search?q=a&collection=none", 404, "no collection"),
    ],
)
def test_mistakes_are_reported_on_a_page(client: httpx.Client, path: str, status: int, words: str) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert words in response.text


def test_long_document_is_shown_in_parts(client: httpx.Client) -> None:
    first = get(client, "/page/documents/long")
    assert len(list(first.all("li"))) == IN_A_PAGE
    assert f"1–{IN_A_PAGE} of {CHUNKS}" in first.text
    last = get(client, f"/page/documents/long?from={2 * IN_A_PAGE}")
    assert len(list(last.all("li"))) == CHUNKS - 2 * IN_A_PAGE
    assert f"Chunk number {CHUNKS - 1} of the long one" in last.texts["li"][-1]
    assert "chunk-401" in [one.get("id") for one in last.all("li")]
    assert "Next chunks" not in last.text


def test_texts_and_titles_are_shown_as_they_are(client: httpx.Client) -> None:
    page = get(client, "/page/documents/evil")
    assert page.texts["h1"][0] == " ".join(ATTACK.split()).replace("\u202e", "\\u202e").replace("\x00", "")
    assert f"{ATTACK}.md".replace("\u202e", "\\u202e").replace("\x00", "\\u0000") in page.text
    assert len(page.texts["li"]) == 2
    assert "First <script>alert(1)</script>" in page.texts["li"][0]
    assert not [
        one for one in get(client, "/page/documents/late").all("a") if "javascript" in str(one["href"])
    ]


def test_modes_stand_side_by_side_with_matched_words_marked(client: httpx.Client) -> None:
    page = get(client, "/page/search?q=the+blocked+card+ERR_4711&n=3")
    assert [text.split()[0] for text in page.texts["h2"]] == ["Hybrid", "Vectors", "Words"]
    assert {"blocked", "card", "ERR_4711"} <= set(page.texts["mark"])
    assert "vectors #1" in " ".join(page.text.split())
    assert "words #1" in " ".join(page.text.split())
    hits = [str(one["href"]) for one in page.all("a") if "#chunk-" in str(one["href"])]
    assert hits[0] == "/page/documents/evil#chunk-2"
    alone = get(client, "/page/search?q=number+432&mode=lexical&n=1")
    assert [text.split()[0] for text in alone.texts["h2"]] == ["Words"]
    hits = [str(one["href"]) for one in alone.all("a") if "#chunk-" in str(one["href"])]
    assert hits == ["/page/documents/long?from=400#chunk-433"]


def test_hits_show_title_key_and_lines_or_page(client: httpx.Client) -> None:
    page = get(client, "/page/search?q=number+432&mode=lexical&n=1")
    words = " ".join(page.texts["li"][0].split())
    assert words.startswith("The longlong.mdline 433 · Part"), words


def test_filter_narrows_a_search(client: httpx.Client) -> None:
    where = quote('{"document_id": "long"}')
    page = get(client, f"/page/search?q=blocked+card+number&mode=hybrid&where={where}")
    hits = [str(one["href"]) for one in page.all("a") if "#chunk-" in str(one["href"])]
    assert hits
    assert all(hit.startswith("/page/documents/long") for hit in hits)
    for wrong in ("{", "[1]", "3"):
        said = client.get("/page/search", params={"q": "card", "where": wrong})
        assert (said.status_code, "the filter must be a JSON object" in said.text) == (422, True)


def test_constant_columns_are_omitted(client: httpx.Client, daemon: Daemon) -> None:
    def heads(path: str) -> list[str]:
        return [text for text in get(client, path).texts["th"] if text in ("Source", "Collection")]

    assert heads("/") == ["Source", "Collection"], "the names of the two tables"
    assert heads("/page/documents") == []
    labels = [one.get("name") for one in get(client, "/page/documents").all("select")]
    assert labels == ["which"]
    with daemon.journal.transaction() as db:
        db.execute("INSERT INTO sources (name, last_scan) VALUES ('mail', 1.7e9)")
        db.execute("INSERT INTO collections (name, role, uuid) VALUES ('mail', 'live', 'y')")
    try:
        wait(lambda: heads("/") == ["Source", "Collection", "Collection"])
        wait(lambda: heads("/page/documents") == ["Source", "Collection"])
        assert heads("/page/documents?source=docs") == ["Collection"]
    finally:
        with daemon.journal.transaction() as db:
            db.execute("DELETE FROM sources WHERE name = 'mail'")
            db.execute("DELETE FROM collections WHERE name = 'mail'")
    wait(lambda: heads("/") == ["Source", "Collection"])


def test_first_pass_has_a_bar_with_rate_and_time_left(daemon: Daemon, client: httpx.Client) -> None:
    daemon.stretch = SyncProgress(12, 45, texts=310, seconds=10.0, left=600, begun=20)
    try:
        page = get(client, "/")
    finally:
        daemon.stretch = SyncProgress()
    words = " ".join(page.text.split())
    assert "12 of 57 documents, 310 of 910 texts embedded, 31.0 a second, about" in words
    assert [one.get("aria-label") for one in page.all("progress")] == ["work that is done"]


def test_other_modes_answer_if_one_fails(daemon: Daemon, client: httpx.Client) -> None:
    asking, daemon.embeddings.open_stream = daemon.embeddings.open_stream, lambda wanted: None  # type: ignore[method-assign]
    try:
        page = get(client, "/page/search?q=blocked+card")
    finally:
        daemon.embeddings.open_stream = asking  # type: ignore[method-assign]
    assert "the embedder of collection docs is not loaded" in page.text
    assert "blocked" in page.texts["mark"]


def test_files_of_the_page_are_served_and_no_others(client: httpx.Client) -> None:
    for name in ("page.css", "page.js", "icon.svg", "chunk_list.css"):
        said = client.get(f"/static/{name}")
        assert said.status_code == 200
        again = client.get(f"/static/{name}", headers={"If-None-Match": said.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    for name in ("base.html", "..%2fconfig.yaml", "config.yaml", "%2e%2e", "page%2fpage.css", ""):
        assert client.get(f"/static/{name}").status_code == 404


def test_pages_are_not_in_the_description_for_programs(client: httpx.Client) -> None:
    assert not [path for path in description()["paths"] if path == "/" or path.startswith("/page")]
    assert "/page" not in client.get("/nowhere").text


def test_overview_answers_while_chroma_and_journal_do_not(
    daemon: Daemon, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, daemon.up = dict(daemon.collections), False
    daemon.collections.clear()
    try:
        page = get(client, "/")
    finally:
        daemon.up = True
        daemon.collections.update(known)
    assert "unknown" in page.text


def test_live_parts_are_those_of_the_page(client: httpx.Client) -> None:
    with client.stream("GET", "/page/events") as stream:
        lines = stream.iter_lines()
        data = next(line for line in lines if line.startswith("data: "))
    parts = json.loads(data.removeprefix("data: "))
    page = get(client, "/")
    assert set(parts) == {one["id"] for _, one in page.tags if "data-live" in one}
    assert "<h1>" in parts["live-headline"]
    assert "<script>alert" not in "".join(parts.values())
    assert stream.headers["content-type"].startswith("text/event-stream")


EVALUATION = "/page/evaluation?collection=docs"


def test_recommendation_and_what_was_compared_are_shown(client: httpx.Client) -> None:
    page = get(client, EVALUATION)
    text = page.text
    assert "It stays." in text
    assert text.count("changepoint") == 2  # what it finds, and what it costs
    assert "chunking: {}" in text
    assert "71.2 % 64 to 78" in text
    for figure in ("240 questions", "1,740", "21,459", "18.0 MB", "0.25", "0.41 s"):
        assert figure in text


def test_overview_links_to_the_evaluation(client: httpx.Client, empty: httpx.Client) -> None:
    assert EVALUATION in [one.get("href") for one in get(client, "/").all("a")]
    assert "/page/evaluation" not in empty.get("/").text


def test_collection_without_evaluation_names_the_command(client: httpx.Client) -> None:
    assert "ingestor evaluate" in get(client, "/page/evaluation?collection=other", 404).text
    assert get(client, "/page/evaluation", 404)


def test_last_report_of_each_collection_is_stored_and_damaged_files_are_skipped(tmp_path: Path) -> None:
    for text in ("first", "second"):
        stored_report.write(tmp_path, evaluation(text), 5.0)
    stored_report.write(tmp_path, {**evaluation("third"), "collection": "other"}, 6.0)
    for content in (
        "{",
        "[]",
        '{"at": 1, "report": {}}',
        '{"at": 1, "report": null}',
        '{"format": 0, "at": 1, "report": {"collection": "x"}}',
    ):
        (tmp_path / f"evaluation-{len(content)}.json").write_text(content)
    found = stored_report.read(tmp_path)
    assert {name: one.at for name, one in found.items()} == {"docs": 5.0, "other": 6.0}
    assert "second" in found["docs"].report["recommendation"]["text"]
    assert found["docs"].report["questions"]["refused"] == []


_NAMES = [
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
]
_PATHS = ("/", "/page/documents", "/page/documents/long", "/page/search", "/page/changes")
VALUES = st.one_of(
    st.text(max_size=50),
    st.sampled_from(["docs", "lexical", "dense", "failed", "short", "-1", "99999999999", "%00", "ERR_4711"]),
    st.lists(st.text(max_size=5), min_size=3, max_size=3).map(json.dumps),
)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(st.sampled_from(_PATHS), st.dictionaries(st.sampled_from(_NAMES), VALUES, max_size=5))
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
