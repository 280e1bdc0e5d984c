"""The HTTP API: thin routes, the schemas of what they answer, layers around them, signing in.

The modules beside these packages are shared by several of them. `application` wires everything up.
"""
