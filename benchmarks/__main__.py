"""``python -m benchmarks NAME [NUMBER ...]`` runs one benchmark; without a name, all, one after the other.

The exit status is 1 if a benchmark lacks a program, package or data set; the message names it.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

from benchmarks._needs import Missing

HERE = Path(__file__).parent
NAMES = sorted([path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_")] + ["correctness"])


def main(arguments: list[str]) -> None:
    """Run benchmarks: modules with a ``main`` that takes numbers, or a folder, and prints a table."""
    wanted = arguments[:1] or NAMES
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise commands compile themselves at each start
    if not set(wanted) <= set(NAMES):
        sys.exit(f"no benchmark is named {wanted[0]!r}; there are: {', '.join(NAMES)}")
    if not arguments:
        print(f"benchmarks: {', '.join(NAMES)}")
    missing = False
    for name in wanted:
        module = import_module(f"benchmarks.{name}")
        print(f"\n== {name}: {(module.__doc__ or '').partition(chr(10))[0]}", flush=True)
        try:
            module.main(*(int(each) if each.isdecimal() else each for each in arguments[1:]))
        except Missing as error:
            missing = True
            print(f"cannot run: {error}", file=sys.stderr)
    sys.exit(missing)


if __name__ == "__main__":
    main(sys.argv[1:])
