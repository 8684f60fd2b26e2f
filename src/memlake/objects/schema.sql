-- repo.db, the part that bytes need. `oid` is always the 32 raw bytes of a SHA-256.
-- Every page ends in a checksum (see db.py), so a flipped bit shows when its page is read.

-- meta: one row a fact. format = repository format; id, salt = what the repo is known by (see layout.py);
-- clock = last tick; seq = last seq given out.
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- object: one row an object or chunk.
--   form      0 inline, 1 inline zstd, 2 in a pack, 3 in a pack zstd, 4 chunked, 5 a part, 6 in a pack as a delta,
--             7 at a remote only (data: its chunk list, if it has one)
--   links     oids this object needs, 32 bytes each; gc, fsck and purge follow them and never parse content
--   role      1 written as an object, 2 written as a chunk of one, 3 both
--   touched   tick of the last write that relied on it; gc spares what was touched since a live lease began
--   condemned tick at which gc found it unreachable; a writer that needs it sets it back to NULL
--   data      inline bytes, the chunk list of a chunked object, or the oid a delta rests on. Last: SQLite reads a row front to back
CREATE TABLE IF NOT EXISTS object(
  id INTEGER PRIMARY KEY, oid BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, form INTEGER NOT NULL, role INTEGER NOT NULL,
  pack INTEGER, start INTEGER, length INTEGER, touched INTEGER NOT NULL, condemned INTEGER, links BLOB, data BLOB);
CREATE INDEX IF NOT EXISTS object_base ON object(data) WHERE form = 6;
CREATE INDEX IF NOT EXISTS object_away ON object(form) WHERE form = 7;
CREATE INDEX IF NOT EXISTS object_pack ON object(pack) WHERE pack IS NOT NULL;

-- pack: one row a sealed pack file; log = 1 when it holds a log segment (versions/logs.py)
CREATE TABLE IF NOT EXISTS pack(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, log INTEGER NOT NULL DEFAULT 0);

-- stray: a file of ours that no row names, and the tick at which gc first saw it
CREATE TABLE IF NOT EXISTS stray(name TEXT PRIMARY KEY, seen INTEGER NOT NULL) WITHOUT ROWID;

-- lease: a writer that is storing bytes before its transaction
CREATE TABLE IF NOT EXISTS lease(
  id INTEGER PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, born TEXT NOT NULL,
  tick INTEGER NOT NULL, expires INTEGER NOT NULL, what TEXT NOT NULL);

-- purge: one row a purge; data is its record (see purge.py), oid the SHA-256 of that
CREATE TABLE IF NOT EXISTS purge(oid BLOB PRIMARY KEY, seq INTEGER NOT NULL, data BLOB NOT NULL) WITHOUT ROWID;

-- tombstone: what was purged, when and why; never the content. purge names the record of the first purge of it
CREATE TABLE IF NOT EXISTS tombstone(
  oid BLOB PRIMARY KEY, seq INTEGER NOT NULL, time INTEGER NOT NULL, size INTEGER NOT NULL,
  reason TEXT NOT NULL, who TEXT NOT NULL, purge BLOB NOT NULL) WITHOUT ROWID;
