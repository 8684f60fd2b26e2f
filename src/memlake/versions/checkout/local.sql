-- local.db: this checkout's own. Relaxed durability: losing its last moments costs a re-scan, never content.

-- state: head (branch name, or @oid when detached), base (oid the files below reflect), previous (for `switch -`),
-- doing (a waiting merge, revert or cherry-pick), journal (a checkout under way), places (sides chosen for places inside
-- files in conflict, JSON {path: {place: side}}), answers (how conflicts were settled before, by hashes of them alone)
CREATE TABLE IF NOT EXISTS state(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;

-- file: what is tracked = the tree of base with the stage applied, each with the stat of the working file when its
-- content was known to be this entry. path is without files/. entry NULL: removed by the stage.
--   stat    size, mtime_ns, ctime_ns, inode, mode; NULL when unknown; empty when the file is not in the working folder
--           because its content is at a remote only
--   racy    1 when the file was so young that it could change again without its stat changing
--   staged  1 when it differs from base, and then old is what base has
--   about   what `add` noted of a staged file, as JSON
CREATE TABLE IF NOT EXISTS file(
  path TEXT PRIMARY KEY, entry BLOB, stat BLOB, racy INTEGER NOT NULL DEFAULT 0, staged INTEGER NOT NULL DEFAULT 0,
  old BLOB, about TEXT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS file_staged ON file(staged) WHERE staged = 1;

-- conflict: every path of a waiting merge. One that changed on both sides has both, and once chosen a choice: ours,
-- theirs, both, or file with what was staged in chosen. One that merged cleanly has the choice merged, what was tracked
-- before in ours and what it became in chosen.
--   written  what the merge put into the working file: the text with markers, or the one side there is
CREATE TABLE IF NOT EXISTS conflict(
  path TEXT PRIMARY KEY, base BLOB, ours BLOB, theirs BLOB, choice TEXT, chosen BLOB, written BLOB) WITHOUT ROWID;

-- headlog: every move of HEAD. Oids are raw, empty for no commit; old is NULL where it is what the row before has as new
CREATE TABLE IF NOT EXISTS headlog(
  id INTEGER PRIMARY KEY, old BLOB, new BLOB, branch TEXT, time INTEGER NOT NULL, action TEXT NOT NULL, who TEXT NOT NULL);

-- operation: what `undo` can take back; before is the state then (see verb.py)
CREATE TABLE IF NOT EXISTS operation(
  id INTEGER PRIMARY KEY, time INTEGER NOT NULL, verb TEXT NOT NULL, detail TEXT NOT NULL, undone INTEGER NOT NULL DEFAULT 0,
  before BLOB NOT NULL);

-- access: how often a memory was read and when last, by its id
CREATE TABLE IF NOT EXISTS access(key BLOB PRIMARY KEY, count INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;
