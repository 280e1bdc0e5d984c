"""The demo: a private broker, the service, a small order pipeline, and a causal chain from it."""
