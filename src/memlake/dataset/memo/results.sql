-- datasets.db: what is remembered of work done, so that it is not done again. Losing it loses time, no data.
CREATE TABLE IF NOT EXISTS plan(key BLOB PRIMARY KEY, frame BLOB NOT NULL, made INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shard(
  key BLOB PRIMARY KEY, function BLOB NOT NULL, family BLOB NOT NULL, rows INTEGER NOT NULL, seconds REAL NOT NULL,
  made INTEGER NOT NULL, fields BLOB NOT NULL, row_keys BLOB) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS shard_function ON shard(function) WHERE row_keys NOT NULL;
CREATE TABLE IF NOT EXISTS piece(
  id INTEGER PRIMARY KEY, function BLOB NOT NULL, row_keys BLOB NOT NULL, data BLOB NOT NULL, made INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS piece_function ON piece(function);
CREATE TABLE IF NOT EXISTS suspect(
  function BLOB NOT NULL, row_key BLOB NOT NULL, PRIMARY KEY(function, row_key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS begun(
  id INTEGER PRIMARY KEY, function BLOB NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, born TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS begun_function ON begun(function);
CREATE TABLE IF NOT EXISTS listing(
  uri TEXT PRIMARY KEY, frame BLOB NOT NULL, made INTEGER NOT NULL, seconds REAL NOT NULL, access TEXT NOT NULL)
  WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS listing_access ON listing(uri, access) WHERE access <> '';
CREATE TABLE IF NOT EXISTS run(id INTEGER PRIMARY KEY, made INTEGER NOT NULL, told BLOB NOT NULL, plan BLOB);
CREATE TABLE IF NOT EXISTS content(file BLOB PRIMARY KEY, oid BLOB NOT NULL) WITHOUT ROWID;
