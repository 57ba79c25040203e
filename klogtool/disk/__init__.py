"""The only floor that writes: carries plans out, so that a kill at any step loses nothing, and takes them back."""
