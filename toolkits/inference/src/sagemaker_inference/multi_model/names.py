"""Names of models, and the tokens by which lists of them go on."""

from __future__ import annotations

import base64
import binascii
import unicodedata

# The longest that the platform's own header for a model takes.
_LONGEST = 1024


def fault(name: str) -> str | None:
    """What is wrong with a model's name; None when it may be used. Names are opaque, but they stand in paths."""
    if not name:
        return "is empty"
    if len(name) > _LONGEST:
        return f"has {len(name)} characters; use at most {_LONGEST}"
    if "/" in name or ".." in name:
        return "contains '/' or '..'"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        return "contains a control character"
    return None


def token(name: str) -> str:
    """The token of the page that begins after a name."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def after(text: str) -> str:
    """The name after which a token's page begins. Raises ValueError for what is no token."""
    try:
        name = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error) as error:
        raise ValueError("no token of this server") from error
    if fault(name) or token(name) != text:
        raise ValueError("no token of this server")
    return name
