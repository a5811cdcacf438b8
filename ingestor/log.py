"""What the program says of itself on standard error: lines for people, or a JSON object a line."""

import json
import logging
import sys
from datetime import UTC, datetime

_OTHERS = ("chromadb", "httpcore", "httpx", "watchdog", "sentence_transformers", "transformers", "urllib3")


def set_up(level: str, form: str) -> None:
    """``level``: debug, info, warning, error; ``form``: text or json. Others' loggers are kept quiet."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else logging.Formatter(_TEXT, "%Y-%m-%d %H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _OTHERS:
        logging.getLogger(name).setLevel(logging.WARNING if level == "debug" else logging.ERROR)


_TEXT = "%(asctime)s %(levelname)-7s %(message)s"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
