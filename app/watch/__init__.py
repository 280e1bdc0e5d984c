"""Assertions while events come: what is due is judged, and others are told what did not hold."""
