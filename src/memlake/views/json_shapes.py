"""Records as JSON: the documented shapes of `--json`. Pure: knows records, no repo and no terminal.

Every document is one object with `"schema_version": 1` and these keys:

    bisect start  bisected          Bisected, with the commits and their `changes` as show has them, as commits
    blame       path, lines         one {line, text, commit, author, time, date, subject} a line
    branch      current, branches   Branch
    cat         path, oid, kind, size, mode, media, encoding, content      the encoding is "utf-8" or "base64"
    clean       dry_run, removed, ignored, left     paths without files/; left: path -> why it was not removed
    config      settings            Value {key, text, origin, says}; for one KEY: key, value
    conflicts   conflicts           Place: path, kind, place, base, ours, theirs, where, choice, status, why
    dataset diff      diff          {old, new, inside, metrics, params}: inside as in diff, its record that of a table,
                                    vectors in more; metrics and params are {name, old, new}
    dataset export    export        {version, rows, bytes, files}
    dataset lineage   lineage       {root, nodes, edges}: {id, kind, name, about}, {source, target, columns}
    dataset ls        datasets      a version: name, version, content, schema, rows, bytes, created, description, attrs,
                                    tags, params, metrics, deleted; `dataset versions` the same as versions
    dataset metrics   versions      {version, rows, created, metrics, params}; rm, restore and mv name versions alone
    dataset preview   rows          a row as an object
    dataset schema    dataset, schema    column -> type
    dataset show      dataset       a version with its provenance
    dataset source    dataset, source, source_kind, functions, git, packages
    describe    name, tag, ahead, commit, dirty
    diff        changes, conflicts  {status, path, old, new, inside}, for a rename {..., from}; Conflict that waits;
                                    `inside` is null, or {type, record, note} with the record of the file's type,
                                    of a file that came or went its summary;
                                    with --stat, --numstat and --shortstat instead of it lines_added and
                                    lines_removed, null for what is not text; with --name-only and --name-status
                                    neither, and no file is looked into
    diff --summarize  summary, sentences, model    DiffSummary, the same in sentences; `model` is null, or {words,
                                    problem} with the words as {who, text} or why there are none
    doctor      ok, checks          Check
    doubt       doubts              {memory, because, uses}: why it is in doubt, and each thing that it rests on as
                                    {name, kind, standing, now, why}; with --settle: settled, {memory, dropped}
    du          usage               Usage
    fsck        ok, report          FsckReport
    gc          report              GcReport
    grep        matches             {path, line, text}; of a binary file line 0 without text
    lineage     lineage             as dataset lineage; kinds are file, checkpoint, prompt, dataset, storage, code,
                                    values, memory, commit, params and metrics; with --where or --rows
                                    {of, number, rows, used_by}: {row, values, steps}, and steps that are
                                    {kind, name, number, rows, why, steps}, `rows` only with --rows or where it is one
    log         commits             Commit, with the values of `metrics` and `params` where it has them, and the ids of
                                    other facts in `meta`; `changes` only with
                                    -p, --stat, --name-only and their kin, each as diff has it; with -g
                                    the Move it was found by
    ls          entries             Entry and its path; `media` only with -l
    ls-files    files               Entry and its path; of untracked files only the path
    memory check      ok, rot       {checked, counts, lines, skipped, problems}: kind -> number; a line is {kind,
                                    memory_id, where, text, why, other}, `other` null or {memory_id, where, text}
    memory conflicts  conflicts     {new, old, rule, why}, the two as memories; theirs and ours of a merge that waits;
                                    with --decided: decided,
                                    {memory_id, decision, rule, unsure, new, old, version, time, date, author}
    memory diff       differences   {memory_id, status, old, new}
    memory blame      fields        {field, value, commit, time, date, author, message}
    memory history    versions      {memory_id, content, oid, commit, time, date, author, message, until, ended,
                                    ended_by, reason}: ended replaced, forgotten, purged or ""
    memory import     report        {stored, known, skipped, problems, warnings, updated, conflicts, users, forgotten,
                                    kept_out, states}; dry_run; with --clean left_out, the lines of memory check
    memory log        commits       Commit
    memory ls         memories      memory; `memory stale` and `evict` with days and access_count
    memory show       memory        memory with has_embedding, access_count, last_accessed, related, review, standing
                                    (fresh, moved, changed, gone, unknown or null) and because
    memory stats      stats         {memories, agents, types, categories, conflicts, in_doubt, model, waiting,
                                    index_bytes, stale}
    metrics     commits             {commit, rev, time, date, author, subject, metrics, params, deltas, behind}: flat
                                    names, `deltas` to what the line recorded before; of several revs `rev` is the name,
                                    `deltas` are to the first, and the values are those of `behind` commits ago
    ops         operations          Operation
    promote     promotion           {commit, source, target, changes, metrics, back}; with --list, running:
                                    {branch, path, commit, time, date, author, subject, source, metrics, other}, and
                                    `other` is null or what the source has instead: {rev, commit, time, date, subject,
                                    metrics}
    rebuild     rebuilt             Rebuilt
    recall      query, mode, notes, left_out, repo, hits    memory with similarity_score, why, standing and because
    reflog      moves               Move
    remember    memory_id, decision, rule, why, content, other_id, review, scores, dry_run, warnings,
                                    repo
    runs        runs                {number, time, action, rows, seconds, kept, provenance}; `rows` null: not all were
                                    asked for; `kept` empty, or why the rows are not; `runs show` one as run
    runs promote  dataset           the version that was saved
    show        commits, files      Commit with `changes` as diff has them, and `metrics`, `params`, `uses` where it
                                    has them; for each REV:PATH a file, as cat, and `inside` as diff has it
    stash list  stashes             Stash
    stash show  commit, changes     as diff
    state       state, states       {agent_id, key, value, updated_at, org_id}
    status  branch, head, doing, step, bisecting, clean, behind, merged, staged, unstaged, untracked, conflicts, purged
                                    with --ignored, ignored; `merged` counts paths that what waits takes over without a
                                    choice; `purged` are tracked files that cannot be here; `step` is where a rebase
                                    waits; `away` (only if there are any) counts files whose content is at a remote
    tag         tags                Tag

A record is an object with the record's own field names;
beside a `time` (microseconds since 1970 UTC) stands `date`, the same in ISO 8601. Paths are whole tree paths
(`files/data/train.csv`), ids are whole, whatever the text output shortens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from memlake.records import Change, Commit, Conflict
from memlake.views import words

SCHEMA_VERSION = 1


def plain(value: Any) -> Any:
    """A record, or anything holding records, as what JSON has words for."""
    if hasattr(value, "_fields"):
        return _record(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float) and value - value != 0:  # JSON has no word for them
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value if isinstance(value, str | int | float | None) else str(value)  # a date, a decimal, a UUID


def _record(record: Any) -> dict[str, Any]:
    shape: dict[str, Any] = {"status": record.status} if isinstance(record, Change | Conflict) else {}
    for field in record._fields:
        shape[field] = plain(getattr(record, field))
        if field == "time":
            shape["date"] = words.iso(record.time)
    return shape


def commit(record: Commit, facts: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """A commit without its changes, which may be long; facts that are given stand by value, and not by id too."""
    meta = {name: oid for name, oid in record.meta.items() if name not in facts}
    shape = plain(record._replace(changes=(), meta=meta))
    del shape["changes"]
    return {**shape, **plain(facts)}


def document(body: Mapping[str, Any]) -> str:
    """One whole document."""
    return _dump({"schema_version": SCHEMA_VERSION, **plain(body)}, indent=2)


def _dump(value: Any, indent: int | None = None) -> str:
    """JSON in UTF-8 as it is; half a character, or a byte of a name that is no text, only as JSON's own escape."""
    import json

    text = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def stream(name: str, items: Iterable[Any]) -> Iterator[str]:
    """The lines of one document that holds a long list, an item a line, made as they are read."""
    yield f'{{"schema_version": {SCHEMA_VERSION}, "{name}": ['
    before: str | None = None
    for item in items:
        if before is not None:
            yield f"{before},"
        before = _dump(plain(item))
    if before is not None:
        yield before
    yield "]}"
