"""Writers of small files in the binary formats, as little as each format asks for."""

import io
import zipfile
from collections.abc import Mapping, Sequence

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
CORE = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">'
    "<dc:title>A study</dc:title><dc:creator>Ada</dc:creator>"
    "<dcterms:created>2024-01-02T03:04:05Z</dcterms:created></cp:coreProperties>"
)
ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full}:1.0"'
    for name, full in [
        ("office", "office"), ("style", "style"), ("text", "text"), ("table", "table"), ("draw", "drawing"),
        ("presentation", "presentation"), ("meta", "meta"),
    ]
) + ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'  # fmt: skip


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            method = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, method)
    return file.getvalue()


def relations(*targets: tuple[str, str, str]) -> str:
    """(id, type's last word, target); what holds a colon is outside."""
    found = "".join(
        f'<Relationship Id="{id_}" Type="{OFFICE}/{kind}" Target="{target}"{_mode(target)}/>'
        for id_, kind, target in targets
    )
    return f'<Relationships xmlns="{RELATIONS}">{found}</Relationships>'


def _mode(target: str) -> str:
    return ' TargetMode="External"' if ":" in target else ""


def docx(body: str, links: Mapping[str, str] | None = None, **parts: str) -> bytes:
    """``parts``: the inner XML of styles, numbering, footnotes."""
    named = [(f"x{name}", name, f"{name}.xml") for name in parts]
    named += [(id_, "hyperlink", url) for id_, url in (links or {}).items()]
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations(("r1", "officeDocument", "word/document.xml")),
            "docProps/core.xml": CORE,
            "word/_rels/document.xml.rels": relations(*named),
            **{f"word/{name}.xml": f"<w:{name} {W}>{xml}</w:{name}>" for name, xml in parts.items()},
            "word/document.xml": f"<w:document {W} {R}><w:body>{body}</w:body></w:document>",
        }
    )


def paragraph(text: str, style: str = "", properties: str = "") -> str:
    styled = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{styled}{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def pptx(*slides: str, notes: str = "") -> bytes:
    """Each slide: the shapes of its tree; ``notes`` are those of the first one."""
    ids = "".join(f'<p:sldId r:id="r{at}"/>' for at in range(len(slides)))
    targets = [(f"r{at}", "slide", f"slides/slide{at}.xml") for at in range(len(slides))]
    parts = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations(("r1", "officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f"<p:presentation {P} {R}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(*targets),
        "ppt/slides/_rels/slide0.xml.rels": relations(
            ("n", "notesSlide", "../notesSlides/notes.xml"), ("l", "hyperlink", "https://example.org/")
        ),
        "ppt/notesSlides/notes.xml": _slide(notes),
    }
    return zipped(parts | {f"ppt/slides/slide{at}.xml": _slide(tree) for at, tree in enumerate(slides)})


def _slide(tree: str) -> str:
    return f"<p:sld {P} {A} {R}><p:cSld><p:spTree>{tree}</p:spTree></p:cSld></p:sld>"


def shape(*lines: str, placeholder: str | None = None) -> str:
    """``placeholder``: its type; None is a text box."""
    mark = (
        "" if placeholder is None else f'<p:nvSpPr><p:nvPr><p:ph type="{placeholder}"/></p:nvPr></p:nvSpPr>'
    )
    text = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in lines)
    return f"<p:sp>{mark}<p:txBody>{text}</p:txBody></p:sp>"


def xlsx(sheets: Mapping[str, str], strings: Sequence[str] = (), formats: Sequence[str] = ()) -> bytes:
    """``sheets``: name to the rows of its data, one named hidden is; ``formats``: of styles 0, 1, …"""
    names = list(sheets)
    entries = "".join(
        f'<sheet name="{name}" state="{_state(name)}" r:id="r{at}"/>' for at, name in enumerate(names)
    )
    targets = [(f"r{at}", "worksheet", f"worksheets/{at}.xml") for at in range(len(names))]
    targets += [("s", "sharedStrings", "sharedStrings.xml"), ("f", "styles", "styles.xml")]
    codes = "".join(f'<numFmt numFmtId="{at + 200}" formatCode="{code}"/>' for at, code in enumerate(formats))
    shared = "".join(f"<si><t>{text}</t></si>" for text in strings)
    used = "".join(f'<xf numFmtId="{at + 200}"/>' for at in range(len(formats)))
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations(("r1", "officeDocument", "xl/workbook.xml")),
            "docProps/core.xml": CORE,
            "xl/workbook.xml": f"<workbook {S} {R}><sheets>{entries}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": relations(*targets),
            "xl/styles.xml": f"<x {S}><numFmts>{codes}</numFmts><cellXfs>{used}</cellXfs></x>",
            "xl/sharedStrings.xml": f"<sst {S}>{shared}</sst>",
            **{
                f"xl/worksheets/{at}.xml": f"<worksheet {S}><sheetData>{sheets[name]}</sheetData></worksheet>"
                for at, name in enumerate(names)
            },
        }
    )


def _state(sheet: str) -> str:
    return "hidden" if sheet == "hidden" else "visible"


def odf(kind: str, body: str, styles: str = "", **parts: str | bytes) -> bytes:
    """``kind``: text, spreadsheet or presentation; ``parts``: further ones by name, or ``manifest``."""
    named = {"META-INF/manifest.xml" if name == "manifest" else name: part for name, part in parts.items()}
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {ODF}><office:automatic-styles>{styles}"
            f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}></office:body>"
            "</office:document-content>",
            "meta.xml": f"<office:document-meta {ODF}><office:meta><dc:title>A study</dc:title>"
            "<meta:initial-creator>Ada</meta:initial-creator><dc:creator>Bo</dc:creator>"
            "<dc:language>en-GB</dc:language></office:meta></office:document-meta>",
            **named,
        }
    )


def epub(chapters: Mapping[str, str], order: Sequence[str], extra: Mapping[str, str] | None = None) -> bytes:
    """``chapters``: file name to the inner HTML of its body; ``order``: names as the spine has them."""
    items = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in chapters
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in order)
    head = '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body>'
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
            '<rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>A study</dc:title>'
            "<dc:creator>Ada</dc:creator><dc:creator>Bo</dc:creator><dc:language>en</dc:language></metadata>"
            f"<manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{f"OEBPS/{name}": f"{head}{body}</body></html>" for name, body in chapters.items()},
            **(extra or {}),
        }
    )


def pdf(
    pages: Sequence[Sequence[tuple[int, int, int, str]]], catalog: str = "", info: str = "", lines: str = ""
) -> bytes:
    """Pages of (left, baseline, size, text), in points; ``lines``: what else is drawn on each.

    Object 3 + 2n is page n; ``catalog`` adds entries.
    """
    kids = " ".join(f"{3 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [f"<</Type/Catalog/Pages 2 0 R{catalog}>>", f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>"]
    fonts = "<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>>>"
    for at, said in enumerate(pages):
        drawn = "\n".join(f"BT /F1 {size} Tf {x} {y} Td ({text}) Tj ET" for x, y, size, text in said)
        drawn = lines + drawn or "0 0 10 10 re f"
        content = f"/Contents {4 + 2 * at} 0 R/Resources<</Font{fonts}>>"
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]{content}>>")
        objects.append(f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream")
    objects.append(f"<<{info}>>")
    return numbered(objects)


def numbered(objects: Sequence[str]) -> bytes:
    """A PDF of these objects, from number 1 on: the first is the catalog, the last the information."""
    out, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    trailer = f"trailer<</Size {size}/Root 1 0 R/Info {size - 1} 0 R>>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + f"xref\n0 {size}\n0000000000 65535 f \n{table}".encode() + trailer.encode()
