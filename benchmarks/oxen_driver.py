"""Runs one verb of Oxen, which ships no command line with its Python package. Runs in Oxen's own environment.

Prints the CPU seconds of the verb alone as its last line: Oxen's own command is a native program, so the
import of its Python package must not count against it.
"""

from __future__ import annotations

import sys
import time

from oxen import Repo, user


def main(verb: str, *args: str) -> None:
    repo = Repo(".")
    started = time.process_time()
    if verb == "init":
        user.config_user("bench", "bench@example.com")
        repo.init()
    elif verb == "record":
        path, message = args
        repo.add(path)
        repo.commit(message)
    elif verb == "status":
        str(repo.status())
    elif verb == "start":
        repo.checkout(args[0], create=True)
    elif verb == "switch":
        repo.checkout(args[0])
    elif verb == "merge":
        repo.merge(args[0])
    else:
        sys.exit(f"the Oxen driver knows no verb {verb}")
    print(f"cpu {time.process_time() - started:.6f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
