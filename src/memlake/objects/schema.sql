-- repo.db, the part that bytes need. `oid` is always the 32 raw bytes of a SHA-256.
-- What no hash covers (notes, roles, links, reasons) stands a second time in an index that no query needs: fsck lets
-- SQLite compare the two, so that a flipped bit in either shows.

-- meta: one row a fact. format = repository format; clock = last tick (see layout.py); seq = last seq given out.
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS meta_checkout ON meta(value) WHERE key = 'checkout';

-- object: one row an object or chunk.
--   form      0 inline, 1 inline zstd, 2 in a pack, 3 in a pack zstd, 4 chunked, 5 a part
--   links     oids this object needs, 32 bytes each; gc, fsck and purge follow them and never parse content
--   role      1 written as an object, 2 written as a chunk of one, 3 both
--   touched   tick of the last write that relied on it; gc spares what was touched since a live lease began
--   condemned tick at which gc found it unreachable; a writer that needs it sets it back to NULL
--   data      inline bytes, or the chunk list of a chunked object. Last: SQLite reads a row front to back
CREATE TABLE IF NOT EXISTS object(
  id INTEGER PRIMARY KEY, oid BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, form INTEGER NOT NULL, role INTEGER NOT NULL,
  pack INTEGER, start INTEGER, length INTEGER, touched INTEGER NOT NULL, condemned INTEGER, links BLOB, data BLOB);
CREATE INDEX IF NOT EXISTS object_condemned ON object(condemned) WHERE condemned IS NOT NULL;
CREATE INDEX IF NOT EXISTS object_pack ON object(pack) WHERE pack IS NOT NULL;
CREATE INDEX IF NOT EXISTS object_role ON object(role) WHERE role <> 1;
CREATE INDEX IF NOT EXISTS object_links ON object(links) WHERE links IS NOT NULL;

-- pack: one row a sealed pack file
CREATE TABLE IF NOT EXISTS pack(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER NOT NULL);

-- lease: a writer that is storing bytes before its transaction
CREATE TABLE IF NOT EXISTS lease(
  id INTEGER PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, born TEXT NOT NULL,
  tick INTEGER NOT NULL, expires INTEGER NOT NULL, what TEXT NOT NULL);

-- tombstone: what was purged, when and why; never the content
CREATE TABLE IF NOT EXISTS tombstone(
  oid BLOB PRIMARY KEY, seq INTEGER NOT NULL, time INTEGER NOT NULL, size INTEGER NOT NULL,
  reason TEXT NOT NULL, who TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tombstone_said ON tombstone(seq, time, size, reason, who);
