"""What clients send in a body, as pydantic models."""
