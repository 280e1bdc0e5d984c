"""Causes and effects of events: walks, ways, chains."""
