"""DocBook 4 and 5: sections, lists, tables, code, figures, footnotes, formulas; title, author, date."""

from xml.etree.ElementTree import Element

from ingestor.model import Blob, Document
from ingestor.parsers.books.tree import LOCAL, BookTree, Names, parsed
from ingestor.parsers.html.tags import words
from ingestor.parsers.shared.flow import Flow
from ingestor.registry import Options, Plugin

_NAMES = Names(
    sections=words(
        "part chapter appendix preface article section sect1 sect2 sect3 sect4 sect5 simplesect refsection "
        "refsect1 refsect2 refsect3 glossary bibliography refsynopsisdiv reference refentry dedication"
    ),
    titles=words("title refname subtitle bridgehead"),
    paragraphs={
        **dict.fromkeys(words("para simpara term synopsis cmdsynopsis funcsynopsis refpurpose"), "paragraph"),
        **dict.fromkeys(words("programlisting screen literallayout programlistingco screenco"), "code"),
        **dict.fromkeys(words("blockquote epigraph"), "quote"),
        "caption": "paragraph",
    },
    lists={
        **dict.fromkeys(words("itemizedlist simplelist variablelist segmentedlist glosslist"), "-"),
        **dict.fromkeys(words("orderedlist procedure substeps"), "1"),
    },
    items=words("listitem member varlistentry step glossentry seglistitem"),
    rows=words("row tr"),
    cells=words("entry td th"),
    tables=words("table informaltable"),
    pictures=words("mediaobject inlinemediaobject graphic inlinegraphic"),
    notes=words("footnote"),
    left_out=words(
        "indexterm remark info bookinfo articleinfo chapterinfo sectioninfo refentryinfo "
        "screeninfo index toc titleabbrev refmeta"
    ),
    formal=words(
        "figure informalfigure example informalexample equation informalequation screenshot "
        "note tip warning caution important sidebar abstract formalpara"
    ),
    joined={"menuchoice": " > ", "keycombo": "+", "cmdsynopsis": " ", "group": " | "},
)
_INFO = words("info bookinfo articleinfo refentryinfo")


class DocbookParser:
    isolated = True

    def __init__(self, options: Options) -> None:
        del options  # there are none

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when the content is not text."""
        return parsed(blob, _read)


def _read(root: Element) -> Document:
    tree = BookTree(_NAMES, Flow())
    info = next((child for child in root if LOCAL[child.tag] in _INFO), Element("none"))
    own = next((child for child in (*root, *info) if LOCAL[child.tag] == "title"), None)
    title = "" if own is None else tree.text(own)
    if own is None or own not in list(root):
        tree.flow.heading(title, 1)
    for child in root:
        tree.block(child, 1 if title else 0)
    tree.flow.flush()
    composer = tree.flow.composer
    names = [LOCAL[one.tag] for one in info.iter()]
    author = (
        next((one for one in info.iter() if LOCAL[one.tag] in ("author", "editor")), None) if names else None
    )
    people = (
        ""
        if author is None
        else " ".join(
            " ".join(one.text.split()) for one in author.iter() if one.text and LOCAL[one.tag] in _NAME_PARTS
        )
    )
    date = next((tree.text(one) for one in info.iter() if LOCAL[one.tag] in ("pubdate", "date")), "")
    language = next((value for name, value in root.attrib.items() if name.rpartition("}")[2] == "lang"), None)
    extra = {"author": people, "date": date}
    return Document(
        text=composer.text,
        blocks=tuple(composer.blocks),
        content_type="application/docbook+xml",
        title=title or composer.title,
        language=language,
        extra=tuple((name, value) for name, value in extra.items() if value),
    )


_NAME_PARTS = words("firstname givenname othername surname personname orgname")

PLUGIN = Plugin(kind="docbook", version=3, options=Options, build=DocbookParser)
