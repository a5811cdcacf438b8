import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.data.csv import PLUGIN
from ingestor.registry import Options
from tests.parsers.laws import blocks_cover_text, obeys_laws, texts

PARSER = PLUGIN.build(Options())


def parse(source: str, name: str = "a.csv") -> Document:
    document = obeys_laws(PARSER, Blob(source.encode(), name))
    assert document is not None
    return document


TABLE = "| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("a.csv", "a,b\n1,2\n", TABLE),
        ("a.csv", "a;b\r\n1;2\r\n", TABLE),
        ("a.csv", "a|b\n1|2\n", TABLE),
        ("a.tsv", "a\tb\n1\t2\n", TABLE),
        ("a.csv", "a, b\n\n1, 2\n", TABLE),
        ("a.csv", 'a,b\n"1, ""x""\ny|z",2', '| a | b |\n| --- | --- |\n| 1, "x" y\\|z | 2 |'),
        ("a.csv", "1,2\n3,4", "| column 1 | column 2 |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"),
        ("a.csv", "only\none", "| only |\n| --- |\n| one |"),
        ("a.csv", "a,b", "| a | b |\n| --- | --- |"),
        ("a.csv", "", ""),
    ],
)
def test_table_of_each_dialect_is_read(name: str, source: str, text: str) -> None:
    assert parse(source, name).text == text


def rows(n: int) -> list[str]:
    chance = random.Random(1)
    return [f"{i},name {chance.random()},{chance.random()}" for i in range(n)]


def test_every_table_has_the_header_and_no_row_is_lost() -> None:
    document = parse("\n".join(["id,name,value", *rows(500)]))
    tables = [text.split("\n") for text in texts(document)]
    assert len(tables) > 20
    assert all(table[0] == "| id | name | value |" for table in tables)
    assert [row.split("|")[1].strip() for table in tables for row in table[2:]] == [
        str(i) for i in range(500)
    ]
    assert max(map(len, texts(document))) < 1500


def test_row_more_moves_few_borders() -> None:
    lines = rows(500)
    before = set(texts(parse("\n".join(["id,name,value", *lines]))))
    after = set(texts(parse("\n".join(["id,name,value", *lines[:100], "new,row,here", *lines[100:]]))))
    assert len(after - before) <= 5


@pytest.mark.parametrize(
    "source",
    [
        'a,"b\n' * 20_000,
        '"' * 300_000,
        "x" * 1_000_000,
        "," * 300_000,
        "a," * 50_000 + "\n" + "a\n" * 50_000,
        "a,b\n" * 100_000,
        "a\0b,c\n1,2",
        "日本,語\n1,2",
    ],
    ids=range(8),
)
def test_absurd_tables_are_covered(source: str) -> None:
    document = PARSER.parse(Blob(source.encode(), "a.csv"))
    blocks_cover_text(document)
    assert len(document.text) < 10 * len(source) + 100


@given(
    st.lists(st.sampled_from(["a", '"', ",", ";", "\t", "\n", "\r", "|", "1", " ", "\u2028"])).map("".join)
)
def test_laws_hold_for_any_cells(source: str) -> None:
    parse(source)


@given(st.binary(max_size=200))
def test_laws_hold_for_any_bytes(data: bytes) -> None:
    obeys_laws(PARSER, Blob(data, "a.csv"), sound=False)
