"""The exit codes of `mt`, beside 0."""

from __future__ import annotations

MISSED = 1
"""A promised score was not reached."""
INTERRUPTED = 130
"""Stopped by the person: 128 + SIGINT, as shells have it."""
BROKEN_PIPE = 1
"""Nobody reads standard output any more; click ends so when it meets it itself."""
