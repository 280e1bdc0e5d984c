"""The state that a trace and its runs write and go on from."""
