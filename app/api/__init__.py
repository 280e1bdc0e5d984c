"""The HTTP API: thin routes, the schemas of what they answer, layers around them, signing in.

Beside these rooms lies what several of them need. `application` puts all together.
"""
