"""The broker's log cleaner: which range, the map of keys, what is kept of each batch."""
