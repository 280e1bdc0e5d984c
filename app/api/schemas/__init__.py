"""What goes over the wire, as pydantic models: the OpenAPI document is made of these.

Field names are the interface; ``docs/api.md`` shows each object with an example.
"""
