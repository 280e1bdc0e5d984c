#!/usr/bin/env bash
# A read through ADBC takes commits from a program that has the same SQLite file open by sqlite3.
#
# The driver in the wheel has an SQLite of its own, and locks on files hold between processes, not
# between two libraries in one. So a process that writes by sqlite3 in WAL mode, and reads the same file
# by ADBC, loses the log under its open connection: the driver, as it closes, takes itself for the last
# one and removes it. What the process commits from then on only it sees itself, and if it is killed
# before it has closed the file, those commits are gone. No call fails. Read by ADBC in a process of its
# own, or close the writer first. Where both went on at once, a process was once ended by the system.
#
# Seen: adbc-driver-sqlite 1.13.0, adbc-driver-manager 1.13.0, pyarrow 26.0.1, Python 3.11 with SQLite 3.40.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    adbc-driver-sqlite==1.13.0 adbc-driver-manager==1.13.0 pyarrow==26.0.1
cd "$folder"
venv/bin/python - <<'CODE'
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

from adbc_driver_sqlite import dbapi

COUNT = "import sqlite3; print(sqlite3.connect('x.db').execute('SELECT count(*) FROM t').fetchone()[0])"


def count():
    return int(subprocess.check_output([sys.executable, "-c", COUNT]))


def write():
    writer = sqlite3.connect("x.db")
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (x)")
    writer.execute("INSERT INTO t VALUES (1)")
    writer.commit()
    assert Path("x.db-wal").exists()
    with dbapi.connect("file:x.db") as reader, reader.cursor() as cursor:
        cursor.execute("SELECT x FROM t")
        assert cursor.fetchall() == [(1,)]
    assert not Path("x.db-wal").exists()
    writer.execute("INSERT INTO t VALUES (2)")
    writer.commit()
    own, other = writer.execute("SELECT count(*) FROM t").fetchone()[0], count()
    print("rows for the writer:", own, "for another process:", other, flush=True)
    os._exit(0 if (own, other) == (2, 1) else 1)  # as if it were killed


if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    print("rows after the writer's end:", count())
    assert count() == 1
else:
    write()
CODE
