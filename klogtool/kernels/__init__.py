"""The hot loops, compiled; each equals its counterpart in format/."""
