-- What a remote holds, as far as its batches told. Derived: made again from the remote when it is lost.

-- fact: tag and root = the root that was read last, and how the remote knows it again
CREATE TABLE IF NOT EXISTS fact(key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- file: a batch or pack of the remote, by its name there (log/..., packs/...). known = 2: taken in here; 1: looked into;
-- 0: joined of files of which some are known, so that held does not have all of it
CREATE TABLE IF NOT EXISTS file(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, known INTEGER NOT NULL);

-- held: where an object or chunk lies there. form as in repo.db; 0 in a batch. lane 0 when a clone without memories
-- has it too. A part has a name of its own; its file is the batch that tells of it, start its sweeps.
CREATE TABLE IF NOT EXISTS held(
  oid BLOB PRIMARY KEY, file INTEGER NOT NULL, start INTEGER, length INTEGER, form INTEGER NOT NULL, size INTEGER NOT NULL,
  lane INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS held_file ON held(file);
