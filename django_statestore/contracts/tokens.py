"""Tokens are capabilities: unguessable, made before they are sent, and stored only as digests."""

from __future__ import annotations

import hashlib
import secrets

from ..exceptions import InvalidArgument


def new_token() -> str:
    """Return a new unguessable token; it is plain text and may travel to another process."""
    return secrets.token_urlsafe(24)


def token_digest(token: object) -> bytes:
    """Return the digest that a store keeps of a token."""
    if not isinstance(token, str) or not token:
        raise InvalidArgument("the token must be the text that acquire() or claim() gave")
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
