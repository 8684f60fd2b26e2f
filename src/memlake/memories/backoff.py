"""How long to wait before trying again. Pure: the caller brings the luck and does the sleeping."""

from __future__ import annotations

FIRST, LONGEST = 0.5, 60.0


def delay(attempt: int, luck: float = 0.5) -> float:
    """Seconds before the try after `attempt` failures: doubling to a minute, half of it left to `luck` (0 to 1).

    Without luck, everyone who was turned away together comes back together.
    """
    whole = min(LONGEST, FIRST * 2.0 ** min(attempt, 16))
    return whole * (1 + luck) / 2
