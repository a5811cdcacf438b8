"""The reranker in a config."""

import pytest

from tests.config.written import SOURCE, checked, said


@pytest.mark.parametrize(
    ("rerank", "message"),
    [
        ("{}", "1: search.rerank: needs `model`, a cross-encoder, or `url`, a server"),
        ("{url: 'example.org'}", "1: search.rerank.url: "),
        ("{url: 'http://key@example.org'}", "1: search.rerank.url: "),
        ("{model: m, hits: 1}", "1: search.rerank.hits: "),
        ("{model: m, timeout: 2m}", "1: search.rerank.timeout: "),
        ("{modle: m}", "1: search.rerank: unknown key 'modle'; did you mean 'model'?"),
    ],
)
def test_reranker_with_bad_options_is_refused(rerank: str, message: str) -> None:
    problem, *_ = said(f"search: {{rerank: {rerank}}}\n{SOURCE}")
    assert problem.startswith(message), problem


def test_reranker_is_off_by_default_and_its_key_is_a_secret() -> None:
    assert checked(SOURCE).search.rerank is None
    given = "{url: 'http://127.0.0.1:80/rerank', api_key: '${KEY}', timeout: 500ms}"
    rerank = checked(f"search: {{rerank: {given}}}\n{SOURCE}", {"KEY": "s3cret"}).search.rerank
    assert rerank is not None
    assert (rerank.timeout, rerank.hits) == (0.5, 20)
    assert "s3cret" not in repr(rerank)
