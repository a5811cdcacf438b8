"""A table that tests change, in a file of SQLite."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from connectors.sql import Sql, SqlOptions

_TABLE = """
CREATE TABLE documents (
    "Key" TEXT, body BLOB, number INTEGER PRIMARY KEY AUTOINCREMENT, version INTEGER, author TEXT, at TEXT
)
"""


class DatabaseWorld:
    """The ``World`` of the connector laws."""

    def __init__(self, folder: Path, **options: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "documents.db"
        self._version = 0
        self.source: dict[str, object] = {
            "url": f"sqlite:///{self.file}",
            "query": "SELECT * FROM documents WHERE author != ':nobody';",
            "key": "Key",
            "version": "version",
            "text": "{body}",
            "file_name": "{key}",
            "metadata": ["author"],
            **options,
        }
        self.connector = Sql(SqlOptions.model_validate(self.source))
        self.do(_TABLE)

    def do(self, statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def put(self, key: str, data: bytes) -> None:
        self._version += 1
        if not self.do(
            'UPDATE documents SET body = ?, version = ? WHERE "Key" = ? RETURNING 1', data, self._version, key
        ):
            self.do(
                "INSERT INTO documents (\"Key\", body, version, author) VALUES (?, ?, ?, 'Ada')",
                key,
                data,
                self._version,
            )

    def delete(self, key: str) -> None:
        self.do('DELETE FROM documents WHERE "Key" = ?', key)

    def move(self, old: str, new: str) -> None:
        self.do('UPDATE documents SET "Key" = ? WHERE "Key" = ?', new, old)

    def fail(self) -> None:
        self.do("DROP TABLE documents")
