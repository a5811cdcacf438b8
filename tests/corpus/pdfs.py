"""PDFs with loops, depths, crowds and damage."""

import zlib
from functools import partial

from tests.corpus.archives import cut, spoilt
from tests.corpus.case import Case, Make, files
from tests.parsers.files import numbered, pdf

_SOUND = [[(50, 700 - 20 * line, 12, f"Line {line} of a sound page") for line in range(20)]] * 5
_FONT = "/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>{}>>"
_BOX = "/MediaBox[0 0 600 800]"


def _page(content: str, more: str = "", resources: str = "", others: tuple[str, ...] = ()) -> bytes:
    """Of one page; its content is object 4, ``others`` follow from 5 on."""
    page = f"<</Type/Page/Parent 2 0 R{_BOX}/Contents 4 0 R{_FONT.format(resources)}{more}>>"
    tree = "<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return numbered(["<</Type/Catalog/Pages 2 0 R>>", tree, page, content, *others, "<<>>"])


def _stream(content: str, more: str = "") -> str:
    return f"<<{more}/Length {len(content)}>>stream\n{content}\nendstream"


def _packed(content: bytes, times: int = 1) -> str:
    for _ in range(times):
        content = zlib.compress(content)
    return _stream(content.hex() + ">", "/Filter[/ASCIIHexDecode" + "/FlateDecode" * times + "]")


def _tree(*nodes: str, catalog: str = "") -> bytes:
    """Page tree from object 2 on."""
    return numbered([f"<</Type/Catalog/Pages 2 0 R{catalog}>>", *nodes, "<<>>"])


def _deep_tree(depth: int) -> bytes:
    nodes = [f"<</Type/Pages/Kids[{at + 3} 0 R]/Count 1/Parent {at + 1} 0 R>>" for at in range(depth)]
    return _tree(*nodes, f"<</Type/Page{_BOX}/Parent {depth + 1} 0 R>>")


def _forms(levels: int, each: int) -> bytes:
    """Every form draws the next one several times."""
    others = []
    for at in range(levels):
        draws = "/X Do " * each if at < levels - 1 else "BT /F1 9 Tf (deep) Tj ET"
        to = f"/Resources<</XObject<</X {6 + at} 0 R>>>>"
        others.append(_stream(draws, f"/Type/XObject/Subtype/Form/BBox[0 0 9 9]{to}"))
    return _page(_stream("/X Do"), resources="/XObject<</X 5 0 R>>", others=tuple(others))


def _outline(loop: bool, items: int = 3) -> bytes:
    nodes = [f"<</Title(t)/Parent 4 0 R/First {at + 6} 0 R/Next {at + 6} 0 R>>" for at in range(items)]
    last = f"<</Title(t)/Parent 4 0 R/Next {5 if loop else 4} 0 R/First {5 if loop else 4} 0 R>>"
    page = f"<</Type/Page/Parent 2 0 R{_BOX}>>"
    tree = "<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return _tree(tree, page, "<</First 5 0 R/Last 5 0 R>>", *nodes, last, catalog="/Outlines 4 0 R")


def _prev_loop() -> bytes:
    data = pdf(_SOUND)
    at = data.rindex(b"xref\n0")
    return data.replace(b"trailer<<", b"trailer<</Prev %d" % at)


_TEXT = "BT /F1 12 Tf 50 700 Td (word) Tj ET\n"
_MADE: dict[str, Make] = {
    "zeros.pdf": lambda: _page(_packed(bytes(300_000_000))),
    "twice-packed.pdf": lambda: _page(_packed(b"\n" * 300_000_000, 2)),
    "operators.pdf": lambda: _page(_stream(_TEXT * 500_000)),
    "saves.pdf": lambda: _page(_stream("q " * 5_000_000)),
    "arrays.pdf": lambda: _page(_stream("[" * 5_000_000)),
    "self-tree.pdf": lambda: _tree("<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>"),
    "ring-tree.pdf": lambda: _tree(
        "<</Type/Pages/Kids[3 0 R]/Count 9>>", "<</Type/Pages/Kids[2 0 R 3 0 R]/Count 9/Parent 2 0 R>>"
    ),
    "deep-tree.pdf": lambda: _deep_tree(30_000),
    "count.pdf": lambda: _tree("<</Type/Pages/Kids[3 0 R]/Count 2000000000>>", f"<</Type/Page{_BOX}>>"),
    "minus.pdf": lambda: _tree("<</Type/Pages/Kids[3 0 R]/Count -5>>", f"<</Type/Page{_BOX}>>"),
    "!crowd.pdf": lambda: _tree(
        f"<</Type/Pages/Kids[{'3 0 R ' * 200_000}]/Count 200000>>", f"<</Type/Page/Parent 2 0 R{_BOX}>>"
    ),
    "form-loop.pdf": lambda: _page(
        _stream("/X Do"),
        resources="/XObject<</X 5 0 R>>",
        others=(_stream("/X Do /X Do", "/Type/XObject/Subtype/Form/Resources<</XObject<</X 5 0 R>>>>"),),
    ),
    "!forms.pdf": lambda: _forms(12, 12),
    "deep-forms.pdf": lambda: _forms(5000, 1),
    "outline-loop.pdf": lambda: _outline(loop=True),
    "outline-deep.pdf": lambda: _outline(loop=False, items=30_000),
    "prev-loop.pdf": _prev_loop,
    "huge-box.pdf": lambda: pdf(_SOUND).replace(b"[0 0 600 800]", b"[0 0 1e99 9e9]"),
    "no-box.pdf": lambda: pdf(_SOUND).replace(b"[0 0 600 800]", b"[9 9 9 9]    "),
    "deep-array.pdf": lambda: _page(_stream(_TEXT), "/X " + "[" * 1_000_000 + "]" * 1_000_000),
    "deep-dictionary.pdf": lambda: _page(_stream(_TEXT), "/X " + "<</X " * 500_000 + "1" + ">>" * 500_000),
    "long-string.pdf": lambda: _page(_stream(f"BT /F1 9 Tf ({'word ' * 4_000_000}) Tj ET")),
    "long-name.pdf": lambda: _page(_stream(_TEXT), "/" + "N" * 10_000_000 + " 1"),
    "huge-font.pdf": lambda: pdf([[(50, 700, 999_999_999, "word")]]),
    "same-place.pdf": lambda: pdf([[(50, 700, 12, "word")] * 60_000]),
    "spread.pdf": lambda: pdf([[(n % 600, n % 800, 1 + n % 40, f"w{n}") for n in range(60_000)]]),
    "lines.pdf": lambda: pdf(
        _SOUND, lines="".join(f"{n % 600} {n // 600} m 600 {n // 600} l S\n" for n in range(200_000))
    ),
    "rectangles.pdf": lambda: pdf(
        _SOUND, lines="".join(f"{n % 300 * 2} {n // 300 * 2} 2 2 re S\n" for n in range(90_000))
    ),
    "image.pdf": lambda: _page(
        _stream("/X Do"),
        resources="/XObject<</X 5 0 R>>",
        others=(
            _stream(
                "00>",
                "/Type/XObject/Subtype/Image/Width 100000/Height 100000"
                "/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/ASCIIHexDecode",
            ),
        ),
    ),
    "script.pdf": lambda: pdf(
        _SOUND, "/OpenAction<</S/JavaScript/JS(while\\(1\\);)>>/AcroForm<</Fields[1 0 R]>>"
    ),
    "launch.pdf": lambda: pdf(
        _SOUND, "/OpenAction<</S/Launch/F(/bin/sh)>>/AA<</O<</S/URI/URI(http://127.0.0.1/)>>>>"
    ),
    "title.pdf": lambda: pdf(_SOUND, info="/Title(" + "t" * 5_000_000 + ")"),
    **{f"!cut-{n}.pdf": partial(cut, lambda: pdf(_SOUND), n) for n in range(2)},
    **{f"spoilt-{n}.pdf": partial(spoilt, lambda: pdf(_SOUND), n) for n in range(3)},
}


def cases() -> list[Case]:
    return files(_MADE)
