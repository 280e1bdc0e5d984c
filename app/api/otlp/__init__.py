"""OpenTelemetry's protocol over HTTP: from a request's body to spans, and the answer's form.

Bodies come from strangers' programs, so they are read by hand: only the kept parts are taken out of
a body, and no object is built for the rest. The protocol's own library makes an object of
everything: 4 MB of empty spans take 334 MB there.
"""
