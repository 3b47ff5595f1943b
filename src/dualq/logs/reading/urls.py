"""URLs of databases: which part of one names the table, and which is nobody's business."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LAST_TABLE = re.compile(r"(?P<path>.*)::(?P<table>[^@/\]:]*)", re.DOTALL)
_IN_QUERY = re.compile(r"(?<=[?&])(?:ssl)?password=[^&]*&?", re.IGNORECASE)
_SHORT = 3  # letters: of a shorter part of a password nobody can tell that it is one


def is_url(path: str) -> bool:
    """Whether a text is a URL."""
    return _URL.match(path) is not None


def split_table(path: str) -> tuple[str, str]:
    """(path, table) of "path::table"; colons within the address of a server are none of it."""
    if not is_url(path):
        before, _, table = path.partition("::")
        return before, table
    found = _LAST_TABLE.fullmatch(path)
    return (found["path"], found["table"]) if found else (path, "")


def without_password(path: str | os.PathLike[str]) -> str:
    """The same without its password, where it is a URL: for people, for files, and for errors."""
    text = os.fspath(path)
    if not is_url(text):
        return text
    before, at, after = text.rpartition("@")
    scheme, user = (before or after).split("://", 1)
    return re.sub(r"[?&]$", "", _IN_QUERY.sub("", f"{scheme}://{user.split(':')[0]}@{after}" if at else text))


def hushed(words: str, url: str) -> str:
    """What a server says of a connection, unless it says the password too."""
    before, at, _ = url.partition("://")[2].rpartition("@")
    secrets = [
        before.partition(":")[2] if at else "",
        *(found[0].partition("=")[2] for found in _IN_QUERY.finditer(url)),
    ]
    parts = {part for secret in secrets for text in (secret, unquote(secret)) for part in re.split(r"[/?#@:&]+", text)}
    if any(len(part) >= _SHORT and part in words for part in parts):
        return "what it says is left out: it holds the password"
    return words
