"""Thin HTTP routes, schemas, authentication, errors to status codes."""
