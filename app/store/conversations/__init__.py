"""Conversations, and messages that failed."""
