"""Lines of text: matching, three-way merge, unified diff. Pure: knows no path and no store."""
