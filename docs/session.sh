#!/usr/bin/env bash
# Makes docs/session.svg, the picture in README.md, from a real session: a daemon begins with nothing in a
# folder of its own, indexes the sample documents, and is asked a question. Needs .venv, tmux and a free port 8000.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
place=/tmp/demo
mkdir "$place"
terminal() { tmux -L "session-$$" "$@"; }
end() {
    terminal send-keys -t daemon C-c || true  # first: the daemon needs its folder until it has ended
    wait_for daemon '^\$ *$' || true
    terminal kill-server || true
    rm -rf "$place"
}
trap end EXIT

shown() { terminal capture-pane -e -p -t "$1" | sed '/^\s*$/d'; }
wait_for() {  # window, pattern
    for _ in $(seq 120); do
        terminal capture-pane -p -t "$1" | grep -q "$2" && return
        sleep 1
    done
    echo "'$2' did not appear in 120 s:" >&2
    shown "$1" >&2
    return 1
}
window() {  # name, command: typed at a plain prompt
    terminal new-session -d -s "$1" -x 110 -y 60 -c "$place" \
        env PATH="$root/.venv/bin:$PATH" PS1='$ ' bash --norc --noprofile
    sleep 1
    terminal send-keys -t "$1" -l "$2"
    terminal send-keys -t "$1" Enter
}

{ cat config.yaml; echo 'log: {level: error}'; } > "$place/config.yaml"
ln -s "$root/documents" "$place/documents"
window daemon 'ingestor run'
wait_for daemon 'Watching for changes'
window question 'ingestor query -n 1 "How long may I keep a book?"'
wait_for question '^\$ *$'
{ shown daemon; echo; shown question; } > "$place/session.ansi"

.venv/bin/python - "$place/session.ansi" docs/session.svg <<'PYTHON'
import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ansi, svg = map(Path, sys.argv[1:])
console = Console(record=True, width=110, file=io.StringIO(), force_terminal=True)
for line in ansi.read_text("utf-8").rstrip().removesuffix("$").rstrip().splitlines():
    console.print(Text.from_ansi(line), overflow="crop", no_wrap=True)
picture = console.export_svg(title="ingestor", theme=MONOKAI, unique_id="session")
# The font comes from elsewhere; a viewer's own monospaced one will do.
picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
svg.write_text(picture.replace("<svg ", '<svg xml:space="preserve" ', 1), "utf-8")
PYTHON
echo "wrote docs/session.svg"
