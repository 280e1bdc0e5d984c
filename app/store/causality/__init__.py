"""What led to an event and what came of it: walks, ways, chains."""
