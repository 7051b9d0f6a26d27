"""Files written whole or not at all, and files of strangers read with care."""
