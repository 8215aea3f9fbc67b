"""What the sources of the corpus are written with; see ../README.md."""
