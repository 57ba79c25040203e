"""A museum of bugs: each was real, each is a small change of today's code, and a test finds it."""
