"""OpenTelemetry's protocol over HTTP: from a request's body to spans, and the answer's form.

Bodies come from programs that nobody here has written, so they are read by hand: only what is kept
is ever taken out of a body, and nothing is built for the rest. The protocol's own library makes an
object of everything: 4 MB of empty spans take 334 MB there.
"""
