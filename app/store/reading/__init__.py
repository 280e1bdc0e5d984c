"""Events, participants and messages, found and listed."""
