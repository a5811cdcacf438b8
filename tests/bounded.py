"""Programs that must end: the kernel kills one that computes for too long.

Python's ``re`` lets nothing else run while it backtracks, so no timer within the process would do.
"""

import resource
import subprocess
import sys
import textwrap


def printed(program: str, *words: str, seconds: int = 20) -> str:
    """What a Python program prints. Fails where it takes more than that many CPU seconds."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    command = [sys.executable, "-c", textwrap.dedent(program), *words]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited)
    assert done.returncode == 0, f"exit {done.returncode} after {done.stdout[-500:]!r}: {done.stderr[-2000:]}"
    return done.stdout
