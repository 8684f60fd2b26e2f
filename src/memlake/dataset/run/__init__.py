"""How a plan is run: what SQL does, what functions do, fragment by fragment."""
