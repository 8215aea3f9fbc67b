"""The steps of a session. Each module has `run(step)` and says in `CLUSTERS` if it needs clusters."""
