"""Files of one process, each write synced: what durability costs without any store."""
