"""Files that are whole at all times: written under another name, then renamed."""

import json
import os
from pathlib import Path
from typing import Any


def write_atomic(path: Path, content: bytes) -> None:
    """Writes to a temporary name beside `path`, then renames."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON, whole or not at all."""
    write_atomic(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
