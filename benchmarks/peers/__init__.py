"""Workers: one training tool each, in its own environment, all given the same batches (see protocol.py)."""
