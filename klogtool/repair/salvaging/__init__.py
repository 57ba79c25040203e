"""What salvage is made of: good stretches, what copies have, new segments, and what is lost and rejected."""
