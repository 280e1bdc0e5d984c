"""The HTTP API: thin routes, layers around them, signing in.

The modules beside these packages are shared by several of them. `application` wires everything up.
"""
