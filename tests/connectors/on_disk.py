"""Documents that are files below a folder, whatever lists them."""

from pathlib import Path


class OnDisk:
    """What the worlds of such connectors have in common."""

    root: Path

    def put(self, key: str, data: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def delete(self, key: str) -> None:
        (self.root / key).unlink()

    def move(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)

    def fail(self) -> None:
        """From now on there is no such folder."""
        self.root.rename(self.root.with_name("aside"))
