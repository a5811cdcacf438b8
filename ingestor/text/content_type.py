"""Which content types are text, and which text is prose, code or data. Pure."""

# Text under another name than text/... (besides ...+json and ...+xml).
TEXTUAL = {
    *("application/json", "application/jsonl", "application/yaml", "application/toml", "application/xml"),
    *("application/sql", "application/javascript", "application/x-sh", "message/rfc822"),
}
# Text that people write in sentences; all other text is code, configuration or data.
PROSE = {
    *("text/plain", "text/markdown", "text/html", "text/x-log", "text/x-diff", "text/x-rst", "text/x-tex"),
    *("text/asciidoc", "text/org", "text/vtt", "text/x-subrip", "text/csv", "text/tab-separated-values"),
    *("message/rfc822", "application/xhtml+xml", "application/x-ipynb+json", "text/prs.fallenstein.rst"),
}


def is_text(content_type: str) -> bool:
    if content_type in TEXTUAL or content_type.startswith("text/"):
        return True
    return content_type.startswith("application/") and content_type.endswith(("+json", "+xml"))


def code_language(content_type: str) -> str | None:
    """``text/x-python`` -> ``python``, ``application/json`` -> ``json``; None for prose."""
    if content_type in PROSE or not is_text(content_type):
        return None
    subtype = content_type.partition("/")[2].removeprefix("x-")
    return subtype if subtype == "c++" else subtype.rpartition("+")[2]
