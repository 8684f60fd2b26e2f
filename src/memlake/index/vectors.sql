-- vectors.db: embeddings by model and keyed hash of the text, as float16 with a CRC-32. Derived, but dear: kept when the index is made anew.
CREATE TABLE IF NOT EXISTS model(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS vector(
  model INTEGER NOT NULL, key BLOB NOT NULL, half BLOB NOT NULL, PRIMARY KEY(model, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS secret(key BLOB NOT NULL);
