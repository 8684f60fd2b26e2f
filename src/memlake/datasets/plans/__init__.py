"""Steps of a chain, and how they are run: what SQL does, what functions do, fragment by fragment."""
