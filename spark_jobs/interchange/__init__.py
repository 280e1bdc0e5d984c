"""A period for the tools that people have: OCEL 2.0, OpenTelemetry's protocol, AsyncAPI 3."""
