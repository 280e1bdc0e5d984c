"""Spark itself: its session and its Java, the way to the database, its errors in words of ours."""
