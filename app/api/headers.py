"""The headers that every answer carries, and those by which a proxy shows itself."""

from __future__ import annotations

from collections.abc import Container

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)

SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

_SET_BY_PROXIES = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


def was_forwarded(headers: Container[str]) -> bool:
    """Tell whether a request came through a proxy that says so."""
    return any(name in headers for name in _SET_BY_PROXIES)
