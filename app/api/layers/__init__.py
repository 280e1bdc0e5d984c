"""ASGI layers: every request passes them before a route sees it, and every answer after."""
