"""The tables of a ledger, and the version of their contents."""

SCHEMA_VERSION = 2

_SQL = """
CREATE TABLE meta    (key TEXT PRIMARY KEY, body TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE session (session INTEGER PRIMARY KEY, body TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE round   (round INTEGER PRIMARY KEY, body TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE closing (round INTEGER PRIMARY KEY, body TEXT NOT NULL, digest BLOB NOT NULL,
                      chain BLOB NOT NULL);
CREATE TABLE trial   (number INTEGER PRIMARY KEY, round INTEGER NOT NULL, body TEXT NOT NULL,
                      digest BLOB NOT NULL);
CREATE TABLE ending  (number INTEGER PRIMARY KEY, round INTEGER NOT NULL, body TEXT NOT NULL,
                      digest BLOB NOT NULL);
CREATE TABLE bucket  (round INTEGER NOT NULL, bucket INTEGER NOT NULL, body TEXT NOT NULL,
                      curves BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (round, bucket));
"""

CREATE_STATEMENTS = tuple(filter(str.strip, _SQL.split(";")))
"""One SQL statement for each table."""
TABLES = tuple(statement.split()[2] for statement in CREATE_STATEMENTS)
"""Their names."""
