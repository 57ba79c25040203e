"""The decoder of docs/values.md: answers with the size of each value."""

import json
import sys

while head := sys.stdin.buffer.read(4):
    value = sys.stdin.buffer.read(int.from_bytes(head, "big"))
    print(json.dumps({"size": len(value)}), flush=True)
