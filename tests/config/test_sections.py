"""Sections of a config: the service port, the reranker and the language model."""

import pytest

from ingestor.config.models import readers_ask_service
from tests.config.written import SOURCE, load_text, mistakes


@pytest.mark.parametrize(
    ("http", "message"),
    [
        ("{host: 0.0.0.0}", "1: http.host: 0.0.0.0 can be reached from other machines: set `token`"),
        ("{host: search.example.org}", "1: http.host: search.example.org can be reached"),
        ("{port: 8000}", "1: http.port: 8000 is also the port of chroma: set `http: {port: ...}`"),
        (
            "{host: 0.0.0.0, token: '${T:-a}'}",
            "1: http.token: 0.0.0.0 can be reached from other machines: set 16",
        ),
        ("{host: db.local, token: '${T:-fifteen-letters}'}", "1: http.token: db.local can be reached"),
        ("{token: '${T:-a b}'}", "1: http.token: must be ASCII"),
        ("{public_url: search.example.org}", "1: http.public_url: "),
        ("{readers: nobody}", "1: http.readers: "),
        ("{prot: 1}", "1: http: unknown key 'prot'; did you mean 'port'?"),
        ("7", "1: http: must be"),
    ],
)
def test_service_port_with_bad_options_is_refused(http: str, message: str) -> None:
    (problem,) = mistakes(f"http: {http}\n{SOURCE}")
    assert problem.startswith(message)


@pytest.mark.parametrize(
    ("top", "port", "url", "asked"),
    [
        ("", 8001, "http://127.0.0.1:8001", True),
        ("http: true", 8001, "http://127.0.0.1:8001", True),
        ("http: {readers: model}", 8001, "http://127.0.0.1:8001", False),
        ("chroma: {path: c, host: 0.0.0.0}", 8001, "http://127.0.0.1:8001", False),
        ("chroma: {host: db}", 8001, "http://127.0.0.1:8001", False),
        ("chroma: {host: db}\nhttp: {readers: service}", 8001, "http://127.0.0.1:8001", True),
        ("chroma: {host: db}\nhttp: {public_url: 'https://x.org/s/'}", 8001, "https://x.org/s", True),
        ("chroma: {path: c, embedded: true}", 8001, "http://127.0.0.1:8001", False),
        ("http: {host: '::', token: '${T:-sixteen-letters-}', port: 9}", 9, "http://[::1]:9", True),
    ],
)
def test_readers_use_the_service_if_they_reach_it(top: str, port: int, url: str, asked: bool) -> None:
    config = load_text(f"{top}\n{SOURCE}")
    assert config.http is not None
    assert (config.http.port, config.http.url) == (port, url)
    assert readers_ask_service(config.http, config.chroma) is asked


def test_config_older_than_service_port_stays_valid() -> None:
    config = load_text(f"chroma: {{path: c, port: 8001}}\n{SOURCE}")
    assert config.http is None
    assert "no service port: 8001 is also the port of chroma" in str(config.warnings[0])
    assert load_text(f"http: false\n{SOURCE}").http is None


@pytest.mark.parametrize(
    ("rerank", "message"),
    [
        ("{}", "1: search.rerank: needs `model` (a cross-encoder) or `url` (a reranking server)"),
        ("{url: 'example.org'}", "1: search.rerank.url: "),
        ("{url: 'http://key@example.org'}", "1: search.rerank.url: "),
        ("{model: m, hits: 1}", "1: search.rerank.hits: "),
        ("{model: m, timeout: 2m}", "1: search.rerank.timeout: "),
        ("{modle: m}", "1: search.rerank: unknown key 'modle'; did you mean 'model'?"),
    ],
)
def test_reranker_with_bad_options_is_refused(rerank: str, message: str) -> None:
    problem, *_ = mistakes(f"search: {{rerank: {rerank}}}\n{SOURCE}")
    assert problem.startswith(message), problem


def test_reranker_is_off_by_default_and_its_key_is_a_secret() -> None:
    assert load_text(SOURCE).search.rerank is None
    given = "{url: 'http://127.0.0.1:80/rerank', api_key: '${KEY}', timeout: 500ms}"
    rerank = load_text(f"search: {{rerank: {given}}}\n{SOURCE}", {"KEY": "s3cret"}).search.rerank
    assert rerank is not None
    assert (rerank.timeout, rerank.hits) == (0.5, 20)
    assert "s3cret" not in repr(rerank)


def test_language_model_is_optional() -> None:
    assert load_text(SOURCE).language_model is None


def test_language_model_takes_a_secret_key_and_numbers_as_prices() -> None:
    endpoint = "{base_url: 'http://h/v1', model: m, api_key: '${KEY}', prompt_price: 0.5, answer_price: 2}"
    model = load_text(f"language_model: {endpoint}\n{SOURCE}", {"KEY": "sk-1"}).language_model
    assert model is not None and model.api_key is not None
    assert (model.model, model.api_key.get_secret_value()) == ("m", "sk-1")
    assert (model.prompt_price, model.answer_price) == (0.5, 2)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{model: m}", "1: language_model.base_url: is required"),
        ("{base_url: localhost, model: m}", "1: language_model.base_url: must be an address"),
        ("{base_url: 'http://a', model: m, modell: 1}", "1: language_model: unknown key 'modell'"),
        ("{base_url: 'http://a', model: m, api_key: sk}", "1: language_model.api_key: is a secret"),
    ],
)
def test_language_model_with_mistake_names_its_line(section: str, message: str) -> None:
    (problem,) = mistakes(f"language_model: {section}\n{SOURCE}")
    assert problem.startswith(message)
