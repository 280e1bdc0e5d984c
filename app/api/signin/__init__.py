"""Signing in: who asks, what they may, and how fast they may guess."""
