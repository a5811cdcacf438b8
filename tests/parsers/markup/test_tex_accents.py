import pytest

from ingestor.model import Blob
from ingestor.parsers.markup.latex import PLUGIN, plain
from ingestor.registry import Options


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (r"G\"odel and G\"{o}del", "Gödel and Gödel"),
        (r"Erd\H{o}s, Erd\H os", "Erdős, Erdős"),
        (r"\v{C}ech, \v Cech", "Čech, Čech"),
        (r"na\"{\i}ve, na\"\i ve", "naïve, naïve"),
        (r"\'Etude \`a la fran\c{c}aise", "Étude à la française"),
        (r"Stra\ss e, \O{}re, \AA ngstr\"om, {\L}\'od\'z", "Straße, Øre, Ångström, Łódź"),
        (r"El Ni\~no~2", "El Niño 2"),
        (r"\u{g} \k{a} \r{u} \.{z} \={a}", "ğ ą ů ż ā"),
        (r"\textbf{M\"uller} \& co", "Müller & co"),
        (r"\url{x} \vec x \cdot \bf y", "x x y"),
    ],
)
def test_accents_become_their_letters(markup: str, text: str) -> None:
    assert plain(markup) == text


def test_titles_and_headings_are_decoded() -> None:
    source = "\\title{On G\\\"odel}\\author{Erd\\H{o}s}\n\\begin{document}\n\\section{\\'Etudes}\nText.\n"
    document = PLUGIN.build(Options()).parse(Blob(source.encode(), "a.tex"))
    assert (document.title, dict(document.extra)) == ("On Gödel", {"author": "Erdős"})
    assert [block.title for block in document.blocks if block.kind == "heading"] == ["Études"]
