"""Signing in: the user behind a request, the user's rights, and bounds on guessing."""
