"""Content types: which parser reads each type, and the names and first bytes that identify it. Pure.

A new format needs one entry in ``PARSERS``. A text format also needs its extension in ``EXTENSIONS``;
signatures identify binary formats.
"""

UNKNOWN = "application/octet-stream"

_WORD, _SLIDES, _SHEETS = (
    f"application/vnd.openxmlformats-officedocument.{kind}"
    for kind in ("wordprocessingml.document", "presentationml.presentation", "spreadsheetml.sheet")
)
_ODF = "application/vnd.oasis.opendocument"
_ODF_KINDS = ("text", "spreadsheet", "presentation")

# Parsers of text, and the types that each reads. A config that names the parser means the first type.
_TEXT_TYPES = {
    "text": "text/plain",
    "markdown": "text/markdown",
    "html": "text/html application/xhtml+xml",
    "rst": "text/x-rst text/prs.fallenstein.rst",
    "asciidoc": "text/asciidoc",
    "org": "text/org",
    "latex": "text/x-tex",
    "json": "application/json application/jsonl",
    "xml": "application/xml text/xml",
    "yaml": "application/yaml",
    "toml": "application/toml text/x-ini",
    "csv": "text/csv text/tab-separated-values",
    "notebook": "application/x-ipynb+json",
    "subtitles": "text/vtt text/x-subrip",
}
TEXT_KINDS = {parser: types.split()[0] for parser, types in _TEXT_TYPES.items()}
_CODE = "python typescript shellscript c c++ csharp java go rust ruby php"

# Content type -> parser kind. Other text is read by the text parser.
PARSERS = {
    **{kind: parser for parser, types in _TEXT_TYPES.items() for kind in types.split() if parser != "text"},
    **{f"text/x-{name}": "code" for name in _CODE.split()},
    "text/javascript": "code",
    "message/rfc822": "mail",
    "application/pdf": "pdf",
    "application/msword": "office97",
    **{f"application/vnd.ms-{name}": "office97" for name in ("excel", "powerpoint", "outlook")},
    **{f"{_ODF}.{kind}-flat-xml": "odf" for kind in _ODF_KINDS},
    **{f"{_ODF}.{kind}{of}": "odf" for kind in _ODF_KINDS for of in ("", "-template")},
    "application/rtf": "rtf",
    "application/epub+zip": "epub",
    _WORD: "docx",
    _SLIDES: "pptx",
    _SHEETS: "xlsx",
}

# Read by OCR, if it is installed.
PICTURES = {f"image/{kind}" for kind in ("png", "jpeg", "tiff", "bmp", "webp", "gif")}
# Text under another name than text/... (besides ...+json and ...+xml).
TEXTUAL = {
    *("application/json", "application/jsonl", "application/yaml", "application/toml", "application/xml"),
    *("application/sql", "application/javascript", "application/x-sh", "message/rfc822"),
}
# Text that people write in sentences; all other text is code, configuration or data.
PROSE = {
    *("text/plain", "text/markdown", "text/html", "text/x-log", "text/x-diff", "text/x-rst", "text/x-tex"),
    *("text/asciidoc", "text/org", "text/vtt", "text/x-subrip", "text/csv", "text/tab-separated-values"),
    *("text/troff", "text/x-wiki"),
    *("message/rfc822", "application/xhtml+xml", "application/x-ipynb+json", "text/prs.fallenstein.rst"),
}

EXTENSIONS = {
    suffix: content_type
    for content_type, suffixes in {
        "text/plain": "txt text asc",
        "text/markdown": "md markdown mdown mkd mdx qmd rmd",
        "text/html": "html htm",
        "application/xhtml+xml": "xhtml xht",
        "text/x-rst": "rst rest",
        "text/asciidoc": "adoc asciidoc",
        "text/org": "org",
        "text/x-tex": "tex latex ltx sty cls",
        "text/csv": "csv",
        "text/tab-separated-values": "tsv",
        "text/x-log": "log",
        "text/vtt": "vtt",
        "text/x-subrip": "srt",
        "text/x-diff": "diff patch",
        "message/rfc822": "eml",
        "application/mbox": "mbox",
        "application/json": "json json5",
        "application/jsonl": "jsonl ndjson",
        "application/x-ipynb+json": "ipynb",
        "application/yaml": "yaml yml",
        "application/toml": "toml",
        "application/xml": "xml xsd xsl xslt rss atom",
        "application/x-fictionbook+xml": "fb2",
        "application/docbook+xml": "dbk docbook",
        f"{_ODF}.text-flat-xml": "fodt",
        f"{_ODF}.spreadsheet-flat-xml": "fods",
        f"{_ODF}.presentation-flat-xml": "fodp",
        "text/troff": "man roff troff mdoc",
        "text/x-wiki": "wiki mediawiki",
        "application/sql": "sql",
        "image/svg+xml": "svg",
        "text/x-ini": "ini cfg conf properties desktop service",
        "text/css": "css scss less",
        "text/javascript": "js mjs cjs jsx",
        "text/x-typescript": "ts mts cts tsx",
        "text/x-python": "py pyi pyw",
        "text/x-c": "c h",
        "text/x-c++": "cc cpp cxx hh hpp hxx",
        "text/x-csharp": "cs",
        "text/x-java": "java",
        "text/x-kotlin": "kt kts",
        "text/x-scala": "scala",
        "text/x-swift": "swift",
        "text/x-go": "go",
        "text/x-rust": "rs",
        "text/x-ruby": "rb",
        "text/x-php": "php",
        "text/x-perl": "pl pm",
        "text/x-lua": "lua",
        "text/x-r": "r",
        "text/x-julia": "jl",
        "text/x-haskell": "hs",
        "text/x-elixir": "ex exs",
        "text/x-erlang": "erl hrl",
        "text/x-clojure": "clj cljs",
        "text/x-lisp": "lisp el scm",
        "text/x-dart": "dart",
        "text/x-fortran": "f f90 f95",
        "text/x-assembly": "s asm",
        "text/x-shellscript": "sh bash zsh ksh fish",
        "text/x-powershell": "ps1 psm1",
        "text/x-protobuf": "proto",
        "text/x-graphql": "graphql gql",
        "text/x-terraform": "tf hcl",
        "text/x-cmake": "cmake",
        "text/x-makefile": "mk",
    }.items()
    for suffix in suffixes.split()
}
# Types of XML: a pattern in the first bytes, and the type.
XML_KINDS = (
    (rb"office:mimetype=[\"']application/vnd\.oasis\.opendocument\.text", f"{_ODF}.text-flat-xml"),
    (rb"office:mimetype=[\"']application/vnd\.oasis\.opendocument\.spread", f"{_ODF}.spreadsheet-flat-xml"),
    (rb"office:mimetype=[\"']application/vnd\.oasis\.opendocument\.pres", f"{_ODF}.presentation-flat-xml"),
    (rb"<FictionBook[\s>]", "application/x-fictionbook+xml"),
    (rb"//DTD DocBook |xmlns(?::\w+)?=[\"']http://docbook\.org/ns/docbook", "application/docbook+xml"),
    (rb"xmlns=[\"']http://www\.mediawiki\.org/xml/export", "application/x-mediawiki+xml"),
)
FILE_NAMES = {
    "makefile": "text/x-makefile",
    "gnumakefile": "text/x-makefile",
    "cmakelists.txt": "text/x-cmake",
    "dockerfile": "text/x-dockerfile",
    "containerfile": "text/x-dockerfile",
}

# (offset, bytes, content type). No text begins with these.
SIGNATURES = (
    (0, b"%PDF-", "application/pdf"),
    (0, b"%!PS", "application/postscript"),
    (0, b"{\\rtf", "application/rtf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"PK\x05\x06", "application/zip"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (0, b"\x1f\x8b", "application/gzip"),
    (4, b"1AY&SY", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"Rar!\x1a\x07", "application/vnd.rar"),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"\xcf\xfa\xed\xfe", "application/x-executable"),
    (0, b"\xca\xfe\xba\xbe", "application/x-executable"),
    (0, b"\x00asm", "application/wasm"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (0, b"\x1aE\xdf\xa3", "video/matroska"),
)
# Like SIGNATURES, but text may begin with these bytes: they count only if the content has NUL bytes, too.
WEAK_SIGNATURES = (
    (0, b"MZ", "application/x-executable"),
    (257, b"ustar", "application/x-tar"),
    (0, b"GIF8", "image/gif"),
    (0, b"II*", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"BM", "image/bmp"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (4, b"ftyp", "video/mp4"),
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"wOF", "font/woff"),
    (0, b"OTTO", "font/otf"),
)
# Members that identify the format of a zip.
MEMBERS = (
    (b"word/document", _WORD),
    (b"ppt/presentation.xml", _SLIDES),
    (b"xl/workbook.xml", _SHEETS),
    (b"xl/workbook.bin", "application/vnd.ms-excel.sheet.binary.macroenabled.12"),
    (b"META-INF/manifest.xml", f"{_ODF}.text"),
    (b"META-INF/container.xml", "application/epub+zip"),
)
# Types in MEMBERS whose exact kind is the content of a member "mimetype", at any position in the archive.
LATE = {f"{_ODF}.text", "application/epub+zip"}
# Formats of zips by name, if no member identifies the format. Most of these are truncated; their parser
# reports that.
ZIPPED = {
    ".docx": _WORD,
    ".pptx": _SLIDES,
    ".xlsx": _SHEETS,
    ".epub": "application/epub+zip",
    ".odt": f"{_ODF}.text",
    ".ods": f"{_ODF}.spreadsheet",
    ".odp": f"{_ODF}.presentation",
}
# Extensions of binary formats that a parser reads.
READ_BY_NAME = {
    *("pdf", "docx", "docm", "dotx", "pptx", "pptm", "xlsx", "xlsm", "rtf", "epub"),
    *("odt", "ods", "odp", "ott", "ots", "otp", "eml", "mbox", "xls", "ppt", "msg"),
}
# Entries that identify the format of an OLE file.
ENTRIES = tuple(
    (name.lower().encode("utf-16-le"), kind)
    for name, kind in (
        ("EncryptedPackage", "application/x-ole-encrypted"),
        ("__substg1.0_", "application/vnd.ms-outlook"),
        ("WordDocument", "application/msword"),
        ("PowerPoint Document", "application/vnd.ms-powerpoint"),
        ("Workbook", "application/vnd.ms-excel"),
        ("Book", "application/vnd.ms-excel"),
    )
)
ARCHIVES = {
    *("application/zip", "application/gzip", "application/x-bzip2", "application/x-xz", "application/zstd"),
    "application/x-tar",
}
# Types that no parser reads, in words for people, with a remedy if there is one.
UNREAD_FORMATS = {
    "application/x-7z-compressed": "an archive of 7-Zip: pack it as .zip to have it opened",
    "application/vnd.rar": "an archive of WinRAR: pack it as .zip to have it opened",
    "application/postscript": "a PostScript document",
    "application/x-ole-storage": "a file of an old Office program",
    "application/x-ole-encrypted": "an Office document that is encrypted: save it without a password",
    "application/vnd.ms-excel.sheet.binary.macroenabled.12": "a binary workbook (.xlsb): save it as .xlsx",
    "application/x-executable": "a program or library",
    "application/vnd.sqlite3": "an SQLite database",
    UNKNOWN: "binary data of no known format",
}


def is_text(content_type: str) -> bool:
    """Return whether content of this type is text."""
    if content_type in TEXTUAL or content_type.startswith("text/"):
        return True
    return content_type.startswith("application/") and content_type.endswith(("+json", "+xml"))


# Parsers of text whose documents have other lines.
_CONVERTED = {"csv", "html", "mail", "notebook", "odf", "subtitles"}
_BOOKS = {"application/docbook+xml", "application/x-fictionbook+xml"}


def keeps_lines(content_type: str) -> bool:
    """Return whether lines of a document's text are lines of its file, so that an editor finds them by
    number."""
    kept = is_text(content_type) and content_type not in _BOOKS
    return kept and PARSERS.get(content_type) not in _CONVERTED


def code_language(content_type: str) -> str | None:
    """Return the programming language of a content type, such as ``python`` for ``text/x-python``; None for
    prose."""
    if content_type in PROSE or not is_text(content_type):
        return None
    subtype = content_type.partition("/")[2].removeprefix("x-")
    return subtype if subtype == "c++" else subtype.rpartition("+")[2]
