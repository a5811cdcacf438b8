"""Functions over spans of a text: sentences, sections, tokens and limits of size. Pure."""
