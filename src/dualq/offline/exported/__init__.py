"""A policy that other systems run without dualq: JSON, SQL, Python; all of them from the same branches."""
