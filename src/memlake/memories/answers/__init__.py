"""What was answered to whom: the record of recalls, why a memory was told or not, tests that ask again."""
