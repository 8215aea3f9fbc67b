"""The GPU kit: what `session.py` runs on a host with a GPU, and rehearses on one without."""
