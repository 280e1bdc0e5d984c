"""Bodies that clients send, as pydantic models."""
