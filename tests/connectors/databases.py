"""Tables that tests change: in a file of SQLite, and in a PostgreSQL server."""

import re
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

from ingestor.connectors.sql.connector import PLUGIN, SqlOptions
from tests.connectors.proxy import Proxy
from tests.connectors.servers import HOST, PASSWORD

_TABLE = """
CREATE TABLE documents (
    "Key" TEXT, body BLOB, number INTEGER PRIMARY KEY AUTOINCREMENT, version INTEGER, author TEXT, at TEXT
)
"""


def watched(engine: Any) -> list[str]:
    """The statements that it runs from now on."""
    from sqlalchemy import event

    statements: list[str] = []
    note = lambda *given: statements.append(" ".join(given[2].split()))  # noqa: E731
    event.listen(engine, "before_cursor_execute", note)
    return statements


class DatabaseWorld:
    """The ``World`` of the connector laws."""

    def __init__(self, folder: Path, **options: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "documents.db"
        self._version = 0
        self.source: dict[str, object] = {
            "url": f"sqlite:///{self.file}", "query": "SELECT * FROM documents WHERE author != ':nobody';",
            "key": "Key", "version": "version", "text": "{body}", "file_name": "{key}",
            "metadata": ["author"], **options,
        }  # fmt: skip
        self.connector = PLUGIN.build(SqlOptions.model_validate(self.source))
        self.do(_TABLE)

    def do(self, statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def put(self, key: str, data: bytes) -> None:
        self._version += 1
        edit = 'UPDATE documents SET body = ?, version = ? WHERE "Key" = ? RETURNING 1'
        if not self.do(edit, data, self._version, key):
            insert = "INSERT INTO documents (body, version, \"Key\", author) VALUES (?, ?, ?, 'Ada')"
            self.do(insert, data, self._version, key)

    def delete(self, key: str) -> None:
        self.do('DELETE FROM documents WHERE "Key" = ?', key)

    def move(self, old: str, new: str) -> None:
        self._version += 1
        self.do('UPDATE documents SET "Key" = ?, version = ? WHERE "Key" = ?', new, self._version, old)

    def fail(self) -> None:
        self.do("DROP TABLE documents")


class PostgresWorld:
    """A table of its own in a server behind a proxy; read by a role that may do no more."""

    secret = PASSWORD

    def __init__(self, folder: Path, port: int, proxy: Proxy, **options: object) -> None:
        self._port, self.proxy = port, proxy
        self._log = folder / "said"
        self._version = 0
        self.table = f"t{uuid.uuid4().hex}"
        self.do(
            f'CREATE TABLE {self.table} ("Key" TEXT PRIMARY KEY, body BYTEA, version BIGINT);'
            "DO $$ BEGIN CREATE ROLE reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
            f"GRANT SELECT ON {self.table} TO reader"
        )
        self.source: dict[str, object] = {
            "url": f"postgresql+psycopg://reader@{HOST}:{proxy.port}/postgres", "password": PASSWORD,
            "query": f'SELECT "Key", body, version FROM {self.table};', "key": "Key", "version": "version",
            "text": "{body}", "file_name": "{key}", **options,
        }  # fmt: skip
        self.connector = PLUGIN.build(SqlOptions.model_validate(self.source))
        self.relent()

    def do(self, statements: str, *values: Any) -> Any:
        import psycopg

        whom = {"host": HOST, "port": self._port, "user": "ada", "password": PASSWORD, "dbname": "postgres"}
        with psycopg.connect(**whom) as connection:  # type: ignore[arg-type]
            return connection.execute(statements, values or None).rowcount

    def put(self, key: str, data: bytes) -> None:
        self._version += 1
        self.do(
            f"INSERT INTO {self.table} VALUES (%s, %s, %s) "
            'ON CONFLICT ("Key") DO UPDATE SET body = EXCLUDED.body, version = EXCLUDED.version',
            *(key, data, self._version),
        )

    def delete(self, key: str) -> None:
        assert self.do(f'DELETE FROM {self.table} WHERE "Key" = %s', key)

    def move(self, old: str, new: str) -> None:
        self._version += 1
        edit = f'UPDATE {self.table} SET "Key" = %s, version = %s WHERE "Key" = %s'
        assert self.do(edit, new, self._version, old)

    def fail(self) -> None:
        self.do(f"DROP TABLE {self.table}")

    def deny(self) -> None:
        self.do("ALTER ROLE reader PASSWORD 'another'")
        self.proxy.drop()

    def throttle(self) -> None:
        self.do("ALTER ROLE reader CONNECTION LIMIT 0")
        self.proxy.drop()

    def cut(self, after: int) -> None:
        self.proxy.cut(after)

    def relent(self) -> None:
        self.do(f"ALTER ROLE reader LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT -1")
        self.proxy.relent()

    def reads(self) -> int:
        """Statements that ask for a row."""
        asked = rf'FROM {self.table}\s*\) documents\s+WHERE "Key" ='
        return len(re.findall(asked, self._log.read_text(errors="replace")))
