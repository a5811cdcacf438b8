"""The journal's tables, as numbered migrations: a released one is never edited, only followed."""

import sqlite3
from collections.abc import Iterator

from ingestor.ports import NeedsHuman

_FIRST = 9  # the format of the first of these; no earlier one left development
_MIGRATIONS = (
    """
    CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE sources (
        name TEXT PRIMARY KEY, last_scan REAL, identity TEXT, held TEXT, accepted INTEGER NOT NULL DEFAULT 0,
        loss INTEGER NOT NULL DEFAULT 0, trouble TEXT, paused REAL, documents INTEGER, origin TEXT
    ) WITHOUT ROWID;
    CREATE TABLE collections (
        name TEXT PRIMARY KEY, uuid TEXT, embedder TEXT, extra_keys TEXT NOT NULL DEFAULT '[]',
        serves TEXT, role TEXT NOT NULL DEFAULT 'live', choices TEXT, since REAL NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        document_id TEXT NOT NULL,
        source TEXT NOT NULL, collection TEXT NOT NULL, key TEXT NOT NULL,
        wanted_version TEXT, wanted_recipe TEXT,
        uri TEXT, size INTEGER, modified REAL, extra TEXT,
        done_version TEXT, done_recipe TEXT, facts TEXT, digest TEXT, parser TEXT,
        statistic TEXT, sums BLOB, lo INTEGER, hi INTEGER,
        attempts INTEGER NOT NULL DEFAULT 0, retry_at REAL NOT NULL DEFAULT 0,
        reason TEXT, detail TEXT, quarantined INTEGER NOT NULL DEFAULT 0,
        shortfall TEXT, shortfall_reason TEXT,
        UNIQUE (source, collection, key), UNIQUE (collection, document_id)
    );
    CREATE TABLE records (
        document INTEGER NOT NULL, slot INTEGER NOT NULL, text_key TEXT NOT NULL, vector_key TEXT NOT NULL,
        meta_key TEXT NOT NULL, unsure INTEGER NOT NULL, vector_digest BLOB NOT NULL DEFAULT x'',
        PRIMARY KEY (document, slot)
    ) WITHOUT ROWID;
    CREATE TABLE statistics (
        collection TEXT NOT NULL, statistic TEXT NOT NULL, documents INTEGER NOT NULL, sums BLOB NOT NULL,
        PRIMARY KEY (collection, statistic)
    ) WITHOUT ROWID;
    CREATE TABLE withdrawals (
        source TEXT PRIMARY KEY, documents INTEGER NOT NULL DEFAULT 0, kept TEXT,
        accepted INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE INDEX unsettled ON documents (retry_at, id) WHERE
        (done_version IS NOT wanted_version OR done_recipe IS NOT wanted_recipe)
        AND wanted_version IS NOT NULL;
    CREATE INDEX gone ON documents (retry_at, id) WHERE wanted_version IS NULL;
    CREATE INDEX moved ON documents (collection, digest) WHERE wanted_version IS NULL;
    CREATE INDEX low ON documents (collection, statistic, lo) WHERE lo IS NOT NULL;
    CREATE INDEX high ON documents (collection, statistic, hi) WHERE hi IS NOT NULL;
    CREATE INDEX failed ON documents (source, key) WHERE reason IS NOT NULL;
    """,
    """
    CREATE TABLE requests (
        kind TEXT NOT NULL, subject TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, subject)
    ) WITHOUT ROWID;
    CREATE TABLE notices (
        kind TEXT NOT NULL, subject TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, subject)
    ) WITHOUT ROWID;
    INSERT INTO requests SELECT substr(key, 1, instr(key, ':') - 1), substr(key, instr(key, ':') + 1), value
        FROM state WHERE value != ''
        AND substr(key, 1, instr(key, ':') - 1) IN ('approved', 'refused', 'roll back', 'prune', 'rebuild');
    INSERT INTO notices SELECT substr(key, 1, instr(key, ':') - 1), substr(key, instr(key, ':') + 1), value
        FROM state WHERE value != ''
        AND substr(key, 1, instr(key, ':') - 1) IN ('waits', 'delayed', 'reach', 'rebuilt');
    DELETE FROM state WHERE key = 'asked' OR instr(key, ':') > 0;
    UPDATE collections SET role = CASE role WHEN 'building' THEN 'staging' WHEN 'retired' THEN 'previous'
        WHEN 'dropped' THEN 'deleted' ELSE role END;
    """,
    """
    ALTER TABLE documents ADD COLUMN since REAL;
    UPDATE documents SET since = (julianday('now') - 2440587.5) * 86400.0
        WHERE done_version IS NOT wanted_version OR done_recipe IS NOT wanted_recipe
            OR wanted_version IS NULL;
    """,
    """
    DROP INDEX unsettled;
    CREATE INDEX unsettled ON documents (source, collection, retry_at, id) WHERE
        (done_version IS NOT wanted_version OR done_recipe IS NOT wanted_recipe)
        AND wanted_version IS NOT NULL;
    """,
    "ALTER TABLE sources ADD COLUMN held_root TEXT;",
    """
    CREATE INDEX unread ON documents (collection, size)
        WHERE wanted_version IS NOT NULL AND digest IS NULL AND quarantined = 0;
    """,
    """
    ALTER TABLE withdrawals ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
    UPDATE withdrawals SET indexed = documents + (
        SELECT COUNT(*) FROM documents AS known WHERE known.source = withdrawals.source
        AND collection IN (SELECT name FROM collections WHERE role = 'live')
        AND EXISTS (SELECT 1 FROM records WHERE document = known.id));
    """,
    """
    ALTER TABLE sources ADD COLUMN most_at REAL;
    UPDATE sources SET most_at = last_scan;
    """,
    "ALTER TABLE collections ADD COLUMN generations TEXT NOT NULL DEFAULT '';",
    # What happened, written by triggers in the transaction of each change; see state/reports.py.
    """
    CREATE TABLE history (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0),
        what TEXT NOT NULL, source TEXT, document TEXT, document_id TEXT, collection TEXT, why TEXT
    );
    CREATE INDEX happened_to ON history (document_id, id);
    CREATE TRIGGER history_bound AFTER INSERT ON history BEGIN
        DELETE FROM history WHERE id <= NEW.id - 20000;
    END;
    CREATE TRIGGER history_done AFTER UPDATE OF digest ON documents
        WHEN NEW.digest != '' AND (OLD.digest IS NOT NEW.digest OR OLD.done_recipe IS NOT NEW.done_recipe)
        AND NEW.collection IN (SELECT name FROM collections WHERE role = 'live')
    BEGIN
        INSERT INTO history (what, source, document, document_id, collection, why) VALUES (
            CASE WHEN coalesce(OLD.digest, '') = '' THEN 'added' WHEN OLD.digest != NEW.digest THEN 'changed'
                ELSE 'rewritten' END,
            NEW.source, NEW.key, NEW.document_id, NEW.collection,
            CASE WHEN OLD.digest = NEW.digest THEN 'the config or the program changed' END);
    END;
    CREATE TRIGGER history_moved AFTER UPDATE OF key ON documents
        WHEN OLD.key != NEW.key AND NEW.collection IN (SELECT name FROM collections WHERE role = 'live')
    BEGIN
        INSERT INTO history (what, source, document, document_id, collection, why)
            VALUES ('moved', NEW.source, NEW.key, NEW.document_id, NEW.collection, 'it was ' || OLD.key);
    END;
    CREATE TRIGGER history_removed AFTER DELETE ON documents
        WHEN OLD.digest != '' AND OLD.collection IN (SELECT name FROM collections WHERE role = 'live')
    BEGIN
        INSERT INTO history (what, source, document, document_id, collection)
            VALUES ('removed', OLD.source, OLD.key, OLD.document_id, OLD.collection);
    END;
    CREATE TRIGGER history_failed AFTER UPDATE OF reason ON documents
        WHEN NEW.reason IS NOT NULL AND OLD.reason IS NOT NEW.reason AND NEW.parser IS NOT '-'
        AND NEW.collection IN (SELECT name FROM collections WHERE role = 'live')
    BEGIN
        INSERT INTO history (what, source, document, document_id, collection, why)
            VALUES (iif(NEW.quarantined, 'quarantined', 'failed'), NEW.source, NEW.key, NEW.document_id,
                NEW.collection, NEW.reason);
    END;
    CREATE TRIGGER history_held AFTER UPDATE OF held ON sources WHEN OLD.held IS NOT NEW.held
    BEGIN
        INSERT INTO history (what, source, why)
            VALUES (iif(NEW.held IS NULL, 'released', 'held'), NEW.name, NEW.held);
    END;
    CREATE TRIGGER history_held_new AFTER INSERT ON sources WHEN NEW.held IS NOT NULL
    BEGIN
        INSERT INTO history (what, source, why) VALUES ('held', NEW.name, NEW.held);
    END;
    CREATE TRIGGER history_config AFTER UPDATE OF choices ON collections
        WHEN NEW.role = 'live' AND OLD.choices IS NOT NULL AND OLD.choices IS NOT NEW.choices
    BEGIN
        INSERT INTO history (what, collection, why)
            VALUES ('config', NEW.name, json_array(OLD.choices, NEW.choices));
    END;
    CREATE TRIGGER history_switched AFTER UPDATE OF role ON collections
        WHEN NEW.role = 'live' AND OLD.role != 'live'
    BEGIN
        INSERT INTO history (what, collection, why) SELECT 'switched', NEW.name, json_array((
            SELECT choices FROM collections WHERE serves = NEW.serves AND name != NEW.name
                AND role IN ('live', 'previous') ORDER BY since DESC LIMIT 1), NEW.choices);
    END;
    """,
    """
    DROP TRIGGER history_switched;
    CREATE TRIGGER history_switched AFTER UPDATE OF role ON collections
        WHEN NEW.role = 'live' AND OLD.role != 'live'
    BEGIN
        INSERT INTO history (what, collection, why) SELECT 'switched', NEW.name, json_array((
            SELECT choices FROM collections WHERE serves = NEW.serves AND name != NEW.name
                AND role IN ('live', 'previous') ORDER BY since DESC LIMIT 1), NEW.choices, (
            SELECT value FROM requests WHERE kind = 'rebuilding' AND subject = NEW.serves));
    END;
    """,
)


class NewerJournal(NeedsHuman):
    """Error: a newer version of this program wrote the journal."""


def migrate(db: sqlite3.Connection) -> None:
    """Bring the tables up to date, in one transaction. Raises NeedsHuman, or NewerJournal.

    Of two processes that do this at the same time, the second finds it done.
    """
    if _count_applied(db) == len(_MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for script in _MIGRATIONS[_count_applied(db) :]:
            for statement in _statements(script):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {_FIRST + len(_MIGRATIONS) - 1}")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _count_applied(db: sqlite3.Connection) -> int:
    """Return how many of the migrations the file has."""
    version, known = int(db.execute("PRAGMA user_version").fetchone()[0]), _FIRST + len(_MIGRATIONS) - 1
    if version > known:
        raise NewerJournal(
            f"the journal has format {version}, and this program knows {known}: install a newer ingestor"
        )
    if 0 < version < _FIRST:
        raise NeedsHuman(
            f"the journal has format {version}, of a version that was never released: move it away, delete "
            "the collections that it wrote, and sync: records are written again from the cache"
        )
    return max(0, version - _FIRST + 1)


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; a trigger's body has semicolons of its own."""
    gathered = ""
    for part in script.split(";"):
        gathered += f"{part};"
        if sqlite3.complete_statement(gathered):
            if gathered.strip(" \n;"):
                yield gathered
            gathered = ""
