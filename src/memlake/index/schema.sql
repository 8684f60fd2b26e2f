-- index.db of one generation of the index. Everything here is derived: deleting it loses nothing.

-- meta: trunk = the branch whose rows carry seqs; head = its commit that is applied; applied = the seq
-- that its rows got; stamp = grows with every change;
-- purged = the oid of the record of the last purge that was followed; moments = names of overlays of commits, the last asked about last;
-- "vectors NAME" = that folder under vectors/ holds some
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- row: one appearance of a record. It is shown on the trunk from from_seq (first) up to to_seq (not any more);
-- a row that only other branches show has from_seq = to_seq = 1 << 62. session is a hash, 0 for none. The id of a
-- purged row is never given again: readers and vector files would take the new row for the one that is gone.
CREATE TABLE IF NOT EXISTS row(
  id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL, oid BLOB NOT NULL, session INTEGER NOT NULL, created INTEGER NOT NULL,
  importance REAL NOT NULL, expires INTEGER NOT NULL, length INTEGER NOT NULL,
  from_seq INTEGER NOT NULL, to_seq INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS row_key ON row(key);
CREATE INDEX IF NOT EXISTS row_expires ON row(expires) WHERE expires > 0;

-- fresh: the terms of rows that no segment holds yet: 8-byte hashes, then a byte of count for each (0 marks a filter)
CREATE TABLE IF NOT EXISTS fresh(row INTEGER PRIMARY KEY, terms BLOB NOT NULL);

-- term: the words behind the hashes, so that a misspelt one can be compared with them
CREATE TABLE IF NOT EXISTS term(hash INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE VIRTUAL TABLE IF NOT EXISTS spelling USING fts5(
  text, content='', contentless_delete=1, detail='none', tokenize='trigram case_sensitive 0');

-- ended: rows that the trunk stopped showing, in the order that happened, until a segment says so itself
CREATE TABLE IF NOT EXISTS ended(id INTEGER PRIMARY KEY, row INTEGER NOT NULL, to_seq INTEGER NOT NULL);

-- segment: files that hold rows first..last
CREATE TABLE IF NOT EXISTS segment(name TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;

-- step: commits of the trunk that are applied
CREATE TABLE IF NOT EXISTS step(generation INTEGER PRIMARY KEY, seq INTEGER NOT NULL);

-- overlay: what another branch shows: the trunk at seq base, less the hidden rows, with the added ones (8 bytes an id)
CREATE TABLE IF NOT EXISTS overlay(
  branch TEXT PRIMARY KEY, head BLOB, base INTEGER NOT NULL, added BLOB NOT NULL, hidden BLOB NOT NULL) WITHOUT ROWID;

-- pending: rows that still want a vector; claimed is when another may take one that a crashed process had taken
CREATE TABLE IF NOT EXISTS pending(
  row INTEGER PRIMARY KEY, tries INTEGER NOT NULL DEFAULT 0, claimed INTEGER NOT NULL DEFAULT 0);
