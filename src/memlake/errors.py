"""Every error memlake raises, grouped by what the caller does next. Knows nothing else of the project.

    Error
    |-- NotFound         no such repo, path, rev, branch, object        exit 128   HTTP 404
    |   `-- NotARepo     no repo here or above
    |-- InvalidInput     the request itself cannot be right             exit 128   HTTP 400
    |   |-- Usage        the command line cannot be understood          exit 2     HTTP 400
    |   |-- NeedsCheckout  a bare repo has no working folder            exit 128   HTTP 400
    |   `-- Ignored      the path is left out by an ignore rule         exit 1     HTTP 400
    |-- Conflict         it would undo or overwrite someone's work      exit 1     HTTP 409
    |-- AlreadyExists    the name is taken                              exit 128   HTTP 409
    |-- Nothing          there is nothing to do                         exit 1     HTTP 409
    |-- RowFailed        a function of the user's raised on a row       exit 1     HTTP 422
    |-- Denied           not allowed                                    exit 128   HTTP 403
    |-- Purged           the content was erased on purpose              exit 128   HTTP 410
    |-- Corrupt          stored bytes do not match their hash           exit 128   HTTP 500
    |   `-- Damaged      only of the index, which is made again
    `-- Unavailable      full disk, busy, I/O error: try again          exit 128   HTTP 503

A message has up to three parts: what happened with the real values; what was or was not changed
(both in the message); what to do next (the `hint`, one command or sentence per line).
"""

from __future__ import annotations

import os

_UNQUOTED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-~^")


def pasted(value: str | os.PathLike[str]) -> str:
    """A name or path as it stands in an advised command, so that the command can be pasted into a shell."""
    text = os.fspath(value)
    # A revision such as HEAD~2 or main^ needs no quotes: no shell expands a tilde or caret inside a word.
    if text and text[0] not in "~^" and _UNQUOTED.issuperset(text):
        return text
    import shlex  # its import costs more than opening a repo may, and opening one makes such advice

    return shlex.quote(text)


class Error(Exception):
    """The root of all memlake errors. `kind` is stable; doors translate it, never the text."""

    kind = "error"
    exit_code = 128
    http_status = 500

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class NotFound(Error):
    kind, http_status = "not_found", 404


class NotARepo(NotFound):
    kind = "not_a_repo"


class InvalidInput(Error):
    kind, http_status = "invalid_input", 400


class Usage(InvalidInput):
    kind, exit_code = "usage", 2


class NeedsCheckout(InvalidInput):
    kind = "needs_checkout"


class Ignored(InvalidInput):
    kind, exit_code = "ignored", 1


class Conflict(Error):
    kind, exit_code, http_status = "conflict", 1, 409


class AlreadyExists(Error):
    kind, http_status = "already_exists", 409


class Nothing(Error):
    kind, exit_code, http_status = "nothing", 1, 409


class RowFailed(Error):
    kind, exit_code, http_status = "row_failed", 1, 422


class Denied(Error):
    kind, http_status = "denied", 403


class Purged(Error):
    kind, http_status = "purged", 410


class Corrupt(Error):
    kind, http_status = "corrupt", 500


class Damaged(Corrupt):
    kind = "damaged"


class Unavailable(Error):
    kind, http_status = "unavailable", 503
