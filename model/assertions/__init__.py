"""Assertions: what should hold of a virtual host's messages, as people write it into a file.

``language`` reads and writes them, ``assertion`` says what there are, ``judging`` what each comes
to in one conversation. Nothing here does I/O.
"""
