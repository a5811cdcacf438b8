"""Read files and list folders of a remote server, within bounds of size, number and time.

The size in a listing may be wrong: a file may be larger, or have no end. Only the requested bytes are kept.
"""

from typing import Any

from fsspec.asyn import sync

from ingestor.ports import NeedsHuman

SECONDS = 600.0  # for a whole answer, also if it comes a byte at a time
LISTING = 3600.0  # seconds for all pages of one listing
MOST_KEYS = 2_000_000  # of one listing
_PART = 2**20  # bytes
_HTTP, _S3 = ("http", "https"), ("s3", "s3a")


def content(system: Any, protocol: str, path: str, most: int) -> bytes:
    """The file's bytes; at least ``most`` + 1 of a longer file. Raises the errors of the file system."""
    read = {**dict.fromkeys(_HTTP, _http), **dict.fromkeys(_S3, _s3)}.get(protocol)
    if read is None:
        return bytes(system.cat_file(path))
    data: bytes = sync(system.loop, read, system, path, most, timeout=SECONDS)
    return data


def list_objects(system: Any, place: str) -> dict[str, dict[str, Any]]:
    """Every object below a path of S3, by its name. Raises NeedsHuman if there are too many."""
    objects: dict[str, dict[str, Any]] = sync(system.loop, _s3_listing, system, place, timeout=LISTING)
    return objects


async def _http(system: Any, url: str, most: int) -> bytes:
    session = await system.set_session()
    async with session.get(system.encode_url(url), **system.kwargs) as answer:
        system._raise_not_found_for_status(answer, url)
        return await _read_bounded(answer.content, most)


async def _s3(system: Any, path: str, most: int) -> bytes:
    bucket, key, version = system.split_path(path)
    which = {"VersionId": version} if version else {}
    answer = await system._call_s3("get_object", Bucket=bucket, Key=key, **which)
    try:
        return await _read_bounded(answer["Body"], most)
    finally:
        answer["Body"].close()


async def _read_bounded(stream: Any, most: int) -> bytes:
    data = bytearray()
    while len(data) <= most and (part := await stream.read(min(_PART, most + 1 - len(data)))):
        data += part
    return bytes(data)


async def _s3_listing(system: Any, place: str) -> dict[str, dict[str, Any]]:
    """List a path of S3. Pages may repeat keys, or never end, so every key counts, not only new keys."""
    from botocore.exceptions import ClientError
    from s3fs.errors import translate_boto_error

    bucket, key, _ = system.split_path(place)
    prefix = f"{key.rstrip('/')}/" if key else ""
    objects: dict[str, dict[str, Any]] = {}
    count = 0
    try:
        async for info in system._iterdir(bucket, delimiter="", prefix=prefix):
            objects[info["name"]] = info
            count += 1
            if count > MOST_KEYS:
                raise NeedsHuman(f"{place} lists more than {MOST_KEYS:,} keys: name a narrower `url`")
    except ClientError as error:
        raise translate_boto_error(error) from error
    return objects
