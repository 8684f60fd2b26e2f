"""What a view asks of where it is shown: colours, harmless text, a width."""

from __future__ import annotations

from typing import Protocol


class Style(Protocol):
    color: bool
    on_terminal: bool

    def paint(self, text: str, style: str) -> str:
        """The text in the colour of a word such as `removed`, or as it is where there are no colours."""

    def clean(self, text: str) -> str:
        """Stored text without anything that would act on what it is shown on."""

    @property
    def width(self) -> int:
        """How many columns a line may have."""
