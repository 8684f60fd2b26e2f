-- What was told to whom, when and why. Of this machine alone; never a commit. Bounded: the oldest records go.

-- recall: one search that was told to somebody, or a hook's answer. record: JSON, with all that recalls.py names
CREATE TABLE IF NOT EXISTS recall(id INTEGER PRIMARY KEY, session TEXT NOT NULL, record TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS recall_session ON recall(session);

-- told: which memories each told, by the key of their ids
CREATE TABLE IF NOT EXISTS told(memory BLOB NOT NULL, recall INTEGER NOT NULL, PRIMARY KEY(memory, recall)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS told_recall ON told(recall);

-- session: the last record before which a session knows nothing any more, because its context was cut
CREATE TABLE IF NOT EXISTS session(name TEXT PRIMARY KEY, cut INTEGER NOT NULL) WITHOUT ROWID;
