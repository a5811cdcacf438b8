#!/usr/bin/env bash
# Makes docs/chunks.png, the picture in docs/chunking.md: the page that `ingestor chunk --html` writes, with one
# chunk chosen. Needs .venv, chromium and pngquant.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
.venv/bin/ingestor chunk documents/history/lighthouses.md --strategy changepoint \
    --compare recursive,breakpoint --html "$place/page.html"
# A person's pointer on a chunk, which a screenshot has not; the page's policy must let the line in.
sed -i -e "s/script-src 'sha256-[^']*'/script-src 'unsafe-inline'/" -e 's#</body>#<script>\
leader = columns[0]; choose(leader.chunks[6].item); show(leader, leader.chunks[6], 0);\
leader.pane.scrollTop -= 8; follow(leader); document.querySelector(".keys").style.display = "block";\
</script></body>#' "$place/page.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1360,900 \
    --blink-settings=preferredColorScheme=1 --screenshot="$place/page.png" "file://$place/page.html"
pngquant --force --output docs/chunks.png 96 "$place/page.png"
