"""Finding things: rows, words, vectors and their ranking. Follows the commit log; deleting it loses nothing."""
