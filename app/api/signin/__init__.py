"""Signing in: who asks, what they may do, and how fast they may guess."""
