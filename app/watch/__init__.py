"""Assertions while events come: due ones are judged, and violations are reported."""
