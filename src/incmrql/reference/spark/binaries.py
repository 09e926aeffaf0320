"""Functions of bytes as Spark defines them; positions count bytes, from 1."""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Final

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_CODES: Final = {code: number for number, code in enumerate(_ALPHABET)}
_PADDING: Final = ord("=")
_LINE: Final = 76
"""Characters of a line of base64 by RFC 2045."""
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_MOST_BYTES: Final = 100_000_000
"""More bytes are a failure: they would not fit in memory."""
_HALF_INT: Final = 1 << 31
_CHARSETS: Final = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-32": "utf-32-be",
}
_BIG_ENDIAN_MARK: Final = b"\xfe\xff"
_LITTLE_ENDIAN_MARK: Final = b"\xff\xfe"


def utf8(text: str) -> bytes:
    """The bytes of a text."""
    return text.encode()


def text_of(content: bytes) -> str | None:
    """The text that bytes are in UTF-8; null if they are none."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def big_endian(number: int, width: int) -> bytes:
    """An integer as so many bytes, the most significant first."""
    return number.to_bytes(width, "big", signed=True)


def substring(content: bytes, position: int, length: int) -> bytes:
    """So many bytes from a position, which counts from the end if it is negative."""
    size = len(content)
    if position > size:
        return b""
    start = position - 1 if position > 0 else _int(size + position) if position < 0 else 0
    end = size if _int(size - start) < length else _int(start + length)
    return content[max(start, 0) : max(end, 0)]


def _int(number: int) -> int:
    """A number as Java's int, which wraps."""
    return (number + _HALF_INT) % (2 * _HALF_INT) - _HALF_INT


def pad_left(content: bytes, length: int, pad: bytes) -> bytes | None:
    """So many bytes: cut, or with others repeated before them."""
    if not 0 <= length < _MOST_BYTES:
        return None
    return _padding(content, length, pad) + content[:length]


def pad_right(content: bytes, length: int, pad: bytes) -> bytes | None:
    """So many bytes: cut, or with others repeated after them."""
    if not 0 <= length < _MOST_BYTES:
        return None
    return content[:length] + _padding(content, length, pad)


def _padding(content: bytes, length: int, pad: bytes) -> bytes:
    missing = length - len(content)
    return (pad * (missing // len(pad) + 1))[:missing] if missing > 0 and pad else b""


def md5(content: bytes) -> str:
    """The digest of bytes."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def sha1(content: bytes) -> str:
    """The digest of bytes."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def sha2(content: bytes, bits: int) -> str | None:
    """The digest with so many bits; 0 is 256."""
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else hashlib.new(name, content).hexdigest()


def crc32(content: bytes) -> int:
    """The checksum of bytes."""
    return zlib.crc32(content)


def hex_of(content: bytes) -> str:
    """Bytes as hexadecimal digits."""
    return content.hex().upper()


def unhex(text: str) -> bytes | None:
    """The bytes that hexadecimal digits denote; a first digit without a partner is a byte."""
    if not _HEX_DIGITS.issuperset(text):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")


def to_base64(content: bytes, in_lines: bool) -> str:
    """Bytes in base64, in one line or in lines of 76 characters."""
    whole = base64.b64encode(content).decode()
    if not in_lines:
        return whole
    return "\r\n".join(whole[at : at + _LINE] for at in range(0, len(whole), _LINE))


def from_base64(text: str) -> bytes | None:
    """The bytes of a text in base64, as Java reads it: other characters do not count."""
    content = text.encode()
    digits: list[int] = []
    at = 0
    for at, code in enumerate(content, 1):
        if code == _PADDING:
            if len(digits) % 4 == 0:
                return None
            if len(digits) % 4 == 2:
                if content[at : at + 1] != b"=":
                    return None
                at += 1
            break
        if code in _CODES:
            digits.append(_CODES[code])
    if len(digits) % 4 == 1 or any(code in _CODES for code in content[at:]):
        return None
    bits = "".join(f"{digit:06b}" for digit in digits)
    return bytes(int(bits[n : n + 8], 2) for n in range(0, len(bits) - 7, 8))


def encode(text: str, charset: str) -> bytes | None:
    """A text in a character set; null if it has other characters, or there is no such set."""
    name = charset.upper()
    try:
        if name == "UTF-16":
            return _BIG_ENDIAN_MARK + text.encode("utf-16-be") if text else b""
        return text.encode(_CHARSETS[name])
    except (KeyError, UnicodeEncodeError):
        return None


def decode(content: bytes, charset: str) -> str | None:
    """The text that bytes are in a character set; null if they are none."""
    name = charset.upper()
    try:
        if name == "UTF-16":
            if content.startswith(_LITTLE_ENDIAN_MARK):
                return content[2:].decode("utf-16-le")
            return content.removeprefix(_BIG_ENDIAN_MARK).decode("utf-16-be")
        return content.decode(_CHARSETS[name])
    except (KeyError, UnicodeDecodeError):
        return None
