"""Lists many run folders: reads each, selects, and formats the table."""
