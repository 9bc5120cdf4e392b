"""The ledger: one SQLite file that is the source of truth of a study.

A round is written in two transactions: `open_round` with its trials and plan before training, and
`close_round` with its results. Rows are only ever added. Each row carries a digest of its content,
and each closed round a digest chained to the previous one. All of them are checked when the ledger
is opened, since SQLite's own integrity check does not notice a flipped bit in a value.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweeper.faults import Step, fault_points
from sweeper.ledger.digests import chain_of, digest_of
from sweeper.ledger.file import (
    SameFile,
    as_ledger_errors,
    close_on_error,
    in_memory,
    open_database,
    open_to_read,
    write_copy,
)
from sweeper.ledger.migration import dumps, migrate
from sweeper.ledger.records import (
    BucketRecord,
    ClosedRound,
    Closing,
    OpenRound,
    memory_of,
    pack,
    requests_of,
    unpack,
)
from sweeper.ledger.schema import CREATE_STATEMENTS, SCHEMA_VERSION
from sweeper.process import package_version
from sweeper.results.timeline import Span
from sweeper.trial import CurveBlock, Memory, Request, Scalar, TrialSpec, fields_of

_END_OF = "end of session "
_LEARNED = "learned"


class Ledger:
    """The rows of one study; only the process that opened it can use it.

    `file` says whether its path still refers to it: if not, the run directory may be that of
    another study.
    """

    version = SCHEMA_VERSION

    def __init__(self, connection: sqlite3.Connection, name: str, path: Path | None = None) -> None:
        self._db = connection
        self._name = name
        self.file = SameFile(path)

    @staticmethod
    def create(path: str | Path) -> Ledger:
        """An empty ledger at `path`, which must not exist; ":memory:" is private to this object.

        It uses SQLite's rollback journal, so that it is a single file when closed.

        Raises:
            LedgerError: it cannot be written.
        """
        name = str(path)
        with as_ledger_errors(name):
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            ledger = Ledger(connection, name)
        version = {"schema_version": SCHEMA_VERSION, "sweeper": package_version()}
        with close_on_error(ledger), ledger._transaction():
            for statement in CREATE_STATEMENTS:
                ledger._db.execute(statement)
            ledger._insert("meta", {"key": "schema_version"}, version)
        return ledger

    @staticmethod
    def open(path: Path, before: Callable[[Ledger], None] = lambda old: None) -> Ledger:
        """The ledger at `path`, with every row checked; old versions are migrated after `before`.

        Raises:
            DamagedLedgerError: it is damaged or emptied.
            LedgerError: it has a later version, or cannot be opened.
        """
        connection, version = open_database(path)
        ledger = Ledger(connection, str(path), path)
        if version < SCHEMA_VERSION:
            with close_on_error(ledger):
                before(ledger)
                with ledger._transaction():
                    migrate(connection, version)
        return ledger

    @staticmethod
    def read(path: Path) -> Ledger:
        """The same ledger, read-only: the file keeps its version.

        Raises:
            LedgerError: as `open`.
        """
        connection, version = open_to_read(path)
        if version == SCHEMA_VERSION:
            return Ledger(connection, str(path), path)
        ledger = Ledger(in_memory(connection), str(path))
        with close_on_error(ledger), ledger._transaction():
            migrate(ledger._db, version)
        return ledger

    def copy(self, path: Path) -> None:
        """Write a copy to `path`, and check it.

        Raises:
            LedgerError: it cannot be written.
        """
        write_copy(self._db, path)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def began_as(self) -> int:
        """The version that the ledger had when the study began."""
        (body,) = self._bodies("SELECT body FROM meta WHERE key = 'schema_version'")
        return body.get("began_as", SCHEMA_VERSION)

    # -- reading ------------------------------------------------------------------------------

    def sessions(self) -> list[dict[str, Any]]:
        """The record of each start of the program, oldest first."""
        return self._bodies("SELECT body FROM session ORDER BY session")

    def learned(self) -> dict[str, Any] | None:
        """The trials of earlier studies that the study learns from; None without any."""
        bodies = self._bodies("SELECT body FROM meta WHERE key = ?", _LEARNED)
        return bodies[0] if bodies else None

    def n_closed_rounds(self) -> int:
        """How many rounds are closed; rounds count from 1."""
        # the count, since no round is missing; counting rows would read all of them
        return int(self._rows("SELECT coalesce(max(round), 0) FROM closing")[0][0])

    def closed_rounds(self) -> Iterator[ClosedRound]:
        """Every closed round with everything that belongs to it, in order."""
        specs, records, ended = self._specs(), self._records(), self._endings()
        query = "SELECT round, round.body, closing.body FROM round JOIN closing USING (round)"
        for number, opening, closing in self._rows(f"{query} ORDER BY round"):
            opened = json.loads(opening)
            yield ClosedRound(
                number,
                tuple(specs.get(number, ())),
                opened["plan"],
                memory_of(opened["memory"]),
                tuple(records.get(number, ())),
                Closing.from_dict(json.loads(closing)),
                ended.get(number, {}),
                requests_of(opened),
            )

    def opened_round(self) -> OpenRound | None:
        """The round that was opened but not closed, if there is one."""
        query = "SELECT round, body FROM round WHERE round > (SELECT count(*) FROM closing)"
        rows = self._rows(query)
        if not rows:
            return None
        number, opening = rows[0]
        opened = json.loads(opening)
        bodies = self._bodies("SELECT body FROM trial WHERE round = ? ORDER BY number", number)
        specs = tuple(TrialSpec(**body) for body in bodies)
        memory = memory_of(opened["memory"])
        return OpenRound(number, specs, opened["plan"], memory, requests_of(opened))

    def n_ended_trials(self) -> int:
        """How many trials have ended in closed rounds."""
        return int(self._rows("SELECT count(*) FROM ending")[0][0])

    def trial_rows(self) -> list[dict[str, Any]]:
        """The row of each finished trial, by number."""
        return self._bodies("SELECT body FROM ending ORDER BY number")

    def bucket_rows(self) -> list[dict[str, Any]]:
        """The row of each bucket of the closed rounds."""
        return self._bodies("SELECT body FROM bucket ORDER BY round, bucket")

    def curves(self, first_round: int, last_round: int) -> Iterator[CurveBlock]:
        """The curves of each closed round from `first_round` to `last_round`."""
        query = "SELECT round, body FROM closing WHERE round BETWEEN ? AND ? ORDER BY round"
        for number, body in self._rows(query, first_round, last_round):
            closing = Closing.from_dict(json.loads(body))
            rows = self._rows("SELECT curves FROM bucket WHERE round = ? ORDER BY bucket", number)
            yield CurveBlock(
                number,
                closing.metrics,
                tuple(curve for (packed,) in rows for curve in unpack(packed)),
                closing.elapsed_s,
            )

    def span_rows(self) -> list[dict[str, Any]]:
        """The recorded time of each session, in the order of recording."""
        # SQLite extracts spans from a body much faster than Python reads all of it
        rounds = self._rows(
            "SELECT json_extract(body, '$.run_id'), round, json_extract(body, '$.spans')"
            " FROM closing ORDER BY round"
        )
        ends = self._rows(
            "SELECT substr(key, ?), NULL, json_extract(body, '$.spans') FROM meta WHERE key LIKE ?",
            len(_END_OF) + 1,
            f"{_END_OF}%",
        )
        order = {session["run_id"]: place for place, session in enumerate(self.sessions())}
        # the end of a session stays after its rounds
        recorded = sorted((*rounds, *ends), key=lambda one: order.get(one[0], 0))
        return [
            {"run_id": run_id, "round": number, **Span(*span)._asdict()}
            for run_id, number, spans in recorded
            for span in json.loads(spans or "[]")
        ]

    def params(self, number: int) -> Mapping[str, Scalar]:
        """The parameters of a trial in a round that was opened."""
        (body,) = self._bodies("SELECT body FROM trial WHERE number = ?", number)
        return body["params"]

    # -- writing ------------------------------------------------------------------------------

    def add_session(
        self, session: Mapping[str, Any], learned: Mapping[str, Any] | None = None
    ) -> None:
        """Record a start of the program: the requested study, versions, machine.

        `learned` are the trials of earlier studies that a new study learns from, if any.
        """
        number = int(self._rows("SELECT count(*) FROM session")[0][0]) + 1
        with self._transaction():
            self._insert("session", {"session": number}, session)
            if learned is not None:
                self._insert("meta", {"key": _LEARNED}, learned)

    def end_session(self, run_id: str, spans: Sequence[Span]) -> None:
        """Record what a session that ended normally did after its last round."""
        with self._transaction():
            self._insert("meta", {"key": f"{_END_OF}{run_id}"}, {"spans": spans})

    def open_round(
        self,
        number: int,
        specs: Iterable[TrialSpec],
        plan: Mapping[str, Any],
        memory: Memory,
        requests: Sequence[Request] = (),
    ) -> None:
        """Record round `number` before training: the trials it adds, and its plan.

        `memory` is what the sampler has stored since the previous round was closed. `requests` for
        trials to propose take effect from this round on.
        """
        with self._transaction():
            for spec in specs:
                self._insert("trial", {"number": spec.number, "round": number}, fields_of(spec))
            opened: dict[str, Any] = {"plan": plan, "memory": memory}
            if requests:
                opened["requests"] = requests
            self._insert("round", {"round": number}, opened)

    def close_round(
        self,
        number: int,
        closing: Closing,
        buckets: Sequence[BucketRecord],
        ended: Mapping[int, Mapping[str, Any]],
    ) -> None:
        """Record the results of round `number`: `ended` maps each finished trial to its row."""
        with self._transaction():
            digests = [
                self._insert(
                    "bucket",
                    {"round": number, "bucket": record.row["bucket_id"]},
                    record.body(),
                    pack([lane.curve for lane in record.lanes]),
                )
                for record in sorted(buckets, key=lambda record: record.row["bucket_id"])
            ]
            digests += [
                self._insert("ending", {"number": trial, "round": number}, row)
                for trial, row in sorted(ended.items())
            ]
            body = dumps(fields_of(closing))
            digest = digest_of(number, body)
            last = self._rows("SELECT chain FROM closing ORDER BY round DESC LIMIT 1")
            chain = chain_of(last[0][0] if last else b"", digest, digests)
            self._db.execute(
                "INSERT INTO closing VALUES (?, ?, ?, ?)", (number, body, digest, chain)
            )

    # -- internal -----------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with as_ledger_errors(self._name):
            try:
                self.file.check()
                self._db.execute("BEGIN IMMEDIATE")
                yield
                with fault_points(Step.COMMIT):
                    self._db.execute("COMMIT")
                self.file.check()
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def _insert(
        self, table: str, keys: Mapping[str, int | str], body: Mapping[str, Any], *blobs: bytes
    ) -> bytes:
        values = (*keys.values(), dumps(body), *blobs)
        digest = digest_of(*values)
        marks = ", ".join("?" * (len(values) + 1))
        self._db.execute(f"INSERT INTO {table} VALUES ({marks})", (*values, digest))
        return digest

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with as_ledger_errors(self._name):
            return self._db.execute(query, values).fetchall()

    def _bodies(self, query: str, *values: object) -> list[dict[str, Any]]:
        return [json.loads(body) for (body,) in self._rows(query, *values)]

    def _specs(self) -> dict[int, list[TrialSpec]]:
        specs: dict[int, list[TrialSpec]] = {}
        for number, body in self._rows("SELECT round, body FROM trial ORDER BY number"):
            specs.setdefault(number, []).append(TrialSpec(**json.loads(body)))
        return specs

    def _records(self) -> dict[int, list[BucketRecord]]:
        records: dict[int, list[BucketRecord]] = {}
        query = "SELECT round, body, curves FROM bucket ORDER BY round, bucket"
        for number, body, packed in self._rows(query):
            record = BucketRecord.from_stored(json.loads(body), packed)
            records.setdefault(number, []).append(record)
        return records

    def _endings(self) -> dict[int, dict[int, Mapping[str, Any]]]:
        endings: dict[int, dict[int, Mapping[str, Any]]] = {}
        for trial, number, body in self._rows("SELECT number, round, body FROM ending"):
            endings.setdefault(number, {})[trial] = json.loads(body)
        return endings
