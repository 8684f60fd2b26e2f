-- repo.db, the part that history needs. `oid` is always the 32 raw bytes of a SHA-256; lane 0 is work, 1 is memory.

-- node: tree nodes. The oid is the hash of data, which every read checks anyway, so only its first eight bytes are
-- kept, as a number, to find it by: half the pages a commit writes are pages of this index.
-- keep = 1 when a work-lane commit needs it: thinning never looks at those.
CREATE TABLE IF NOT EXISTS node(id INTEGER PRIMARY KEY, key INTEGER NOT NULL, keep INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS node_key ON node(key);

-- history: commits in the order they became visible. p1, p2 and other are seqs of the parents and of the other
-- lane's head: derived from data, kept beside it so that walking needs no decoding; fsck compares them.
CREATE TABLE IF NOT EXISTS history(
  seq INTEGER PRIMARY KEY, oid BLOB NOT NULL UNIQUE, lane INTEGER NOT NULL, p1 INTEGER, p2 INTEGER, other INTEGER,
  generation INTEGER NOT NULL, data BLOB NOT NULL);

-- ref: a branch or tag names one commit a lane. kind 0 branch, 1 tag, 2 internal (stash).
CREATE TABLE IF NOT EXISTS ref(
  name TEXT NOT NULL, kind INTEGER NOT NULL, work BLOB, memory BLOB, note BLOB, PRIMARY KEY(kind, name)) WITHOUT ROWID;

-- reflog: every move of a ref, for ever. old and new are seqs. action and who are NULL for a plain commit, which
-- says both itself. mark chains each row to the one before it, so that an altered row shows.
CREATE TABLE IF NOT EXISTS reflog(
  id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, ref TEXT NOT NULL, lane INTEGER NOT NULL, old INTEGER, new INTEGER,
  time INTEGER NOT NULL, action TEXT, who TEXT, mark INTEGER NOT NULL);
-- Only the work lane is indexed: agents move the memory lane all day, and its moves are read rarely and from the end.
CREATE INDEX IF NOT EXISTS reflog_work ON reflog(ref, kind) WHERE lane = 0;
