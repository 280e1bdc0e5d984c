"""ASGI layers: what every request passes before a route sees it, and every answer after."""
