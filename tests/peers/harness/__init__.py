"""What tests/peers/run.py is made of."""
