"""A sequence-to-sequence machine translation toolkit: raw text in, a trained model and an honest score out."""

__version__ = "0.1.0"
