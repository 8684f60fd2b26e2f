-- vectors.db: embeddings by model and keyed hash of the text, as float16. Derived, but dear: kept when the index is made anew.
CREATE TABLE IF NOT EXISTS model(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS vector(
  model INTEGER NOT NULL, key BLOB NOT NULL, half BLOB NOT NULL, PRIMARY KEY(model, key)) WITHOUT ROWID;
-- source: the texts that objects have, so that the vectors of a purged one are found when its text is gone
CREATE TABLE IF NOT EXISTS source(oid BLOB NOT NULL, key BLOB NOT NULL, PRIMARY KEY(oid, key)) WITHOUT ROWID;
-- meta: purged = the oid of the record of the last purge that was followed
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS secret(key BLOB NOT NULL);
