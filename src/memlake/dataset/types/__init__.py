"""What a column can hold: classes and Arrow types, one read as the other. Knows no plan and no repo."""
