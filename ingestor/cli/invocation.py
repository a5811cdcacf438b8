"""Commands of this program, ready to paste into the shell from which it was called."""

import re
import shlex
import shutil
import sys
from pathlib import Path

DEFAULT_CONFIG = Path("config.yaml")


def command(words: str, config: Path = DEFAULT_CONFIG) -> str:
    """``.venv/bin/ingestor sync --config other.yaml``: with path and options only as needed."""
    option = "" if config == DEFAULT_CONFIG else f" --config {shlex.quote(str(config))}"
    return f"{shlex.quote(_program())} {words}{option}"


def quoted(text: str) -> str:
    """Text as one shell word, in double quotes if possible."""
    return shlex.quote(text) if re.search(r'[\\"$`!]', text) else f'"{text}"'


def _program() -> str:
    called = Path(sys.argv[0])
    found = shutil.which(called.name)
    if not called.is_file() or (found is not None and called.samefile(found)):
        return called.name
    try:
        return str(called.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(called.absolute())
