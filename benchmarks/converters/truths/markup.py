"""Markup that people write by hand."""

import io
import re
import subprocess
from pathlib import Path

from bs4 import BeautifulSoup

from benchmarks.converters.truths.pages import shown
from benchmarks.converters.truths.shape import Truth, tabular


def rst(path: str) -> Truth:
    from docutils import nodes
    from docutils.core import publish_doctree

    quiet = {"report_level": 5, "halt_level": 6, "warning_stream": io.StringIO(), "raw_enabled": True}
    options = {**quiet, **dict.fromkeys(("file_insertion_enabled", "doctitle_xform", "docinfo_xform"), False)}
    tree = publish_doctree(Path(path).read_text("utf-8", "replace"), settings_overrides=options)
    truth = Truth(headings=[], rows=[])
    unread = [m for m in tree.findall(nodes.system_message) if m.findall(nodes.literal_block)]
    if any("directive" in m.astext() for m in unread):
        raise ValueError("has directives that docutils does not know")
    for node in (*tree.findall(nodes.system_message), *tree.findall(nodes.comment)):
        if node.parent is not None:
            node.parent.remove(node)
    truth.headings = [n.astext() for n in tree.findall(nodes.title) if isinstance(n.parent, nodes.section)]
    unsaid = (nodes.raw, nodes.target, nodes.substitution_definition)
    outer = (n for n in tree.findall(nodes.TextElement) if not isinstance(n.parent, nodes.TextElement))
    truth.text = [n.astext() for n in outer if not isinstance(n, unsaid)]
    truth.rows = tabular(
        [cell.astext() for cell in row.findall(nodes.entry)] for row in tree.findall(nodes.row)
    )
    return truth


def markdown(path: str) -> Truth:
    from markdown_it import MarkdownIt

    text = Path(path).read_text("utf-8", "replace")
    text = re.sub(r"\A---\n.*?\n---\n", "", text, count=1, flags=re.S)
    page = BeautifulSoup(MarkdownIt("commonmark", {"html": True}).enable("table").render(text), "html5lib")
    return shown(page.body)


def asciidoc(path: str, node: str) -> Truth:
    """Read AsciiDoc. ``node``: folder in which node finds AsciiDoc's own converter."""
    script = (
        "const a=require('@asciidoctor/core')();process.stdout.write(a.convertFile(process.argv[1],"
        "{to_file:false,standalone:false,safe:'secure',attributes:{showtitle:true}}))"
    )
    done = subprocess.run(["node", "-e", script, path], cwd=node, capture_output=True, check=True, timeout=60)
    page = BeautifulSoup(done.stdout, "html5lib").body
    for row in page.select(".admonitionblock tr, .colist tr"):
        row.name = "div"
    for title in (made := page.find_all("h1")[:1]):
        title.name = "p"  # the title of a manual page is generated
    truth = shown(page)
    first = Path(path).read_text("utf-8", "replace").lstrip().partition("\n")[0]
    truth.open = [*(title.get_text() for title in made), first.strip("= ")]
    return truth


def org(path: str) -> Truth:
    text = Path(path).read_text("utf-8", "replace")
    text = re.sub(r"(?ms)^[ \t]*:(PROPERTIES|LOGBOOK):\n.*?:END:[ \t]*$", "", text)
    text = re.sub(r"(?m)^#(?!\+).*$|^[ \t]*#\+(?!title).*$", "", text, flags=re.I)
    text = re.sub(r"\[\[[^\]]*\]\[([^\]]*)\]\]", r"\1", text)
    text = re.sub(r"(?m)^(\*+ .*?)\s+:[\w@:]+:[ \t]*$", r"\1", text)
    heads = [
        re.sub(r"^(?:(?:TODO|DONE) )?(?:\[#.\] *)?", "", words)
        for words in re.findall(r"(?m)^\*+ +(.+?) *$", text)
    ]
    rows = tabular(line.strip().strip("|").split("|") for line in re.findall(r"(?m)^ *\|(?!-).*$", text))
    return Truth([text], heads, rows)


_HEAD = re.compile(
    r"\\(?:part|chapter|(?:sub)*section|paragraph)\*?(?:\[[^\]]*\])?\{((?:[^{}]|\{[^{}]*\})*)\}"
)


def latex(path: str) -> Truth:
    text = re.sub(r"(?<!\\)%.*", "", Path(path).read_text("utf-8", "replace"))
    body = text.partition(r"\begin{document}")[2] or text
    done = subprocess.run(["detex", "-n", "-r", path], capture_output=True, check=True, timeout=30)
    heads = [re.sub(r"\\[a-zA-Z]+\*?|[{}$~]", " ", words).strip() for words in _HEAD.findall(body)]
    return Truth([done.stdout.decode("utf-8", "replace")], heads)


def man(path: str) -> Truth:
    source = Path(path).read_text("utf-8", "replace")
    command = ["groff", "-k", "-t", "-mandoc", "-rHY=0", "-rLL=2000n", "-rLT=2000n", "-Tutf8", "-P-cbou"]
    done = subprocess.run([*command, path], capture_output=True, check=True, timeout=60)
    words = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()][1:-1]
    heads = re.findall(r"(?m)^\.\s*S[HSh]s?[ \t]+(.+?)[ \t]*$", source)
    plain = [
        re.sub(r"\\f(?:\[\w*\]|\(..|.)|\\[&/,|^]|\"", "", h).replace("\\-", "-").replace("\\ ", " ")
        for h in heads
    ]
    return Truth(["\n".join(words)], plain)


def mediawiki(path: str) -> Truth:
    import mwparserfromhell

    code = mwparserfromhell.parse(Path(path).read_text("utf-8", "replace"))
    heads = [str(h.title.strip_code()).strip() for h in code.filter_headings()]
    return Truth([str(code.strip_code())], heads)
